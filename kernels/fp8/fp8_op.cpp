#include "kernels/fp8/fp8_op.h"

#include <algorithm>

#include "core/graph/layout.h"
#include "kernels/linear/linear_op.h"

namespace forge {
namespace {

bool backward(const Call& c) { return c.op.kind == &ops::linear_input_gradient; }

// Returns the product without its operands.
ScaledProduct product_of(const Call& c, size_t module) {
  const ModuleUse& use = c.use(module);
  ScaledProduct args{.type = c.type(), .m = c.tokens()};
  args.n = backward(c) ? use.in : use.out, args.k = backward(c) ? use.out : use.in;
  args.add = backward(c) && (c.op.attributes.accumulate || module > 0);
  return args;
}

ScaledProduct of_rows(const Call& c, size_t module, const QuantizeRows& rows, const Part& out) {
  ScaledProduct args = product_of(c, module);
  args.a = rows.codes, args.a_stride = rows.codes_stride, args.a_scales = rows.scales;
  args.out = out.data, args.out_stride = out.stride;
  args.workspace = c.at(bind::fp8_space(c).product);
  return args;
}

// Quantises x or d y into the workspace. `factors` multiply its columns; null: none.
QuantizeRows quantised(const OpRun& r, const Part& x, const float* factors) {
  QuantizeRows rows{r.type(), r.tokens(), x.width, x.data, x.stride, factors};
  rows.codes = r.at<uint8_t>(0), rows.codes_stride = x.width;
  rows.scales = r.at<float>(bind::fp8_space(r).scales);
  r.device.run(rows);
  return rows;
}

}  // namespace

bind::Fp8Space bind::fp8_space(const Call& c) {
  Fp8Space space;
  if ((!backward(c) && c.op.kind != &ops::linear) || !any_fp8(c.m.graph, c.op)) return space;
  int64_t widest = 0, product = 0;
  for (size_t i = 0; i < c.op.modules.size(); ++i) {
    if (!c.use(i).fp8) continue;
    const ScaledProduct args = product_of(c, i);
    widest = std::max(widest, args.k);
    product = std::max(
        product, c.m.capacity.gpu ? scaled_product_gpu_workspace(args) : scaled_product_cpu_workspace(args));
  }
  const auto after = [&](int64_t bytes) {
    return space.bytes = (space.bytes + bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
  };
  space.scales = after(c.tokens() * widest);
  space.product = after(4 * c.tokens());
  after(product);
  return space;
}

QuantizeRows fused::fp8_rows(const OpRun& r, const Part& x) {
  return bind::any_fp8(r.m.graph, r.op) ? quantised(r, x, nullptr) : QuantizeRows{};
}

void fused::fp8_product(const OpRun& r, size_t module, const QuantizeRows& x, const void* bias) {
  ScaledProduct args = of_rows(r, module, x, part(r, r.out(0), module));
  args.b = r.module(module).blocks.codes, args.b_scales = r.module(module).blocks.absmax;
  args.bias = bias, args.quick_sums = true;
  r.device.run(args);
}

void fused::fp8_input_gradient(const OpRun& r, size_t module) {
  const QuantizeRows d_y = quantised(r, part(r, r.in(0), module), r.module(module).blocks.absmax);
  ScaledProduct args = of_rows(r, module, d_y, whole(r, r.out(0)));
  args.b = r.weights.transposed(r.op.modules[module]), args.b_scales = r.weights.ones();
  r.device.run(args);
}

}  // namespace forge
