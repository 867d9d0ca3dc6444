#include "kernels/dora/dora_op.h"

#include <algorithm>

#include "core/graph/gradients.h"
#include "kernels/call/run.h"
#include "kernels/dora/dora_args.h"
#include "kernels/linear/products.h"
#include "kernels/lora/lora_op.h"
#include "kernels/rows/rows_op.h"

namespace forge {
namespace {

// Counts B A, added to W and squared, for each adapted module.
double ratio_flops(const Graph& graph, const Op& op, double, double) {
  double flops = 0;
  for (size_t i = 0; i < op.modules.size(); ++i) {
    const ModuleUse& module = graph.module(op, i);
    if (module.rank > 0)
      flops += static_cast<double>(2 * (module.rank + 1)) * static_cast<double>(module.in * module.out);
  }
  return flops;
}

// Makes a gradient for each module's part, in the place of the result's gradient where no other
// value has the same.
void derive_dora(Gradients& g, const Op& forward) {
  Op op = g.like(&ops::dora_backward, forward);
  op.modules = forward.modules;
  const ValueId x = forward.in[0], d_y = g.whole_gradient(forward);
  op.in = {d_y, g.need(x), g.need(forward.in[1])};
  const std::vector<ValueId> parts =
      g.graph.ops[static_cast<size_t>(g.graph.producers[static_cast<size_t>(x)])].parts;
  if (forward.parts.size() > 1 || !g.shared(forward.parts[0]))
    g.mirror(x, g.graph.value(d_y).buffer);
  for (ValueId part : parts) op.out.push_back(g.new_gradient(part));
  g.push(std::move(op));
}

void derive_nothing(Gradients&, const Op&) {}  // ratios are held constant

// `weight` is the module's, in the compute type.
DoraRatio ratio_of(const Call& c, size_t module, const void* weight, float* ratio, float* inverse) {
  const ModuleUse& use = c.use(module);
  const OpModule& m = c.module(module);
  return {c.type(), use.out, use.in,      use.rank, m.scale, weight,
          m.a,      m.b,     m.magnitude, ratio,    inverse, c.workspace};
}

// Computes the ratios of all columns, then one over their norms; columns without an adapter stay as
// they are.
void run_ratio(const OpRun& r) {
  const int64_t width = r.m.width(r.out(0)), bytes = width * static_cast<int64_t>(sizeof(float));
  float *const begin = r.m.numbers(r.out(0)), *ratio = begin, *inverse = begin + width / 2;
  std::vector<float>* known = r.m.ratios ? &(*r.m.ratios)[r.out(0)] : nullptr;
  if (known && !known->empty()) return r.device.write(begin, known->data(), bytes);
  for (size_t i = 0; i < r.op.modules.size(); ++i) {
    const ModuleUse& use = r.use(i);
    const OpModule& m = r.module(i);
    FORGE_CHECK(r.weights.converts(m) || m.stride == use.in, "dora on a weight with gaps between its rows");
    if (use.rank > 0) r.device.run(ratio_of(r, i, fused::base(r, i).data, ratio, inverse));
    ratio += use.out, inverse += use.out;
  }
  if (!known) return;
  known->resize(static_cast<size_t>(width));
  r.device.read(known->data(), begin, bytes);
}

// Calls visit(module, its first column).
template <class Visit>
void each_module(const OpRun& r, Visit visit) {
  for (size_t i = 0, column = 0; i < r.op.modules.size(); column += static_cast<size_t>(r.use(i++).out))
    visit(i, static_cast<int64_t>(column));
}

void run_dora(const OpRun& r) {
  each_module(r, [&](size_t i, int64_t column) {
    const Part from = part(r, r.in(0), i), to = part(r, r.out(0), i);
    if (r.use(i).rank == 0) return r.device.run(bind::copy(r, r.tokens(), from, to));
    DoraForward args{.type = r.type(), .rows = r.tokens(), .width = from.width};
    args.x = from.data, args.x_stride = from.stride, args.y = to.data, args.y_stride = to.stride;
    args.ratio = r.m.numbers(r.in(1)) + column, args.bias = r.module(i).bias;
    r.device.run(args);
  });
}

void run_dora_backward(const OpRun& r) {
  const int64_t width = r.m.width(r.in(2)) / 2;
  each_module(r, [&](size_t i, int64_t column) {
    const Part d_y = part(r, r.in(0), i), x = part(r, r.in(1), i), d_x = whole(r, r.out(i));
    if (r.use(i).rank == 0) {
      if (d_x.data != d_y.data) r.device.run(bind::copy(r, r.tokens(), d_y, d_x));
      return;
    }
    DoraBackward args{.type = r.type(), .rows = r.tokens(), .width = d_y.width};
    args.d_y = d_y.data, args.d_y_stride = d_y.stride, args.d_x = d_x.data, args.d_x_stride = d_x.stride;
    args.x = x.data, args.x_stride = x.stride;
    args.ratio = r.m.numbers(r.in(2)) + column, args.inverse_norm = args.ratio + width;
    args.d_magnitude = r.module(i).d_magnitude;
    r.device.run(args);
  });
}

int64_t ratio_workspace(const Call& c) {
  if (c.m.capacity.gpu) return 0;
  int64_t most = 0;
  bind::each_adapter(c, [&](size_t i, size_t) {
    most = std::max(most, dora_ratio_cpu_workspace(ratio_of(c, i, nullptr, nullptr, nullptr)));
  });
  return most;
}

}  // namespace

const OpRecord ops::dora_ratio{.name = "dora ratio",
                               .flops = ratio_flops,
                               .bulk = Bulk::products,
                               .derive = derive_nothing,
                               .run = run_ratio,
                               .workspace = ratio_workspace};
const OpRecord ops::dora{.name = "dora", .flops = flops::elementwise, .derive = derive_dora, .run = run_dora, .copies = {.results = 3}};
const OpRecord ops::dora_backward{.name = "dora backward",
                                  .flops = flops::elementwise,
                                  .run = run_dora_backward,
                                  .copies = {.results = 2,
                                  .operands = 2}};

}  // namespace forge
