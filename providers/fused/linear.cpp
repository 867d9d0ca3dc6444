#include "providers/fused/linear.h"

#include <algorithm>
#include <array>
#include <span>

#include "core/base/error.h"
#include "providers/fused/fp8_linear.h"
#include "providers/fused/fp8_sizes.h"
#include "providers/fused/products.h"

namespace forge::fused {
namespace {

// Returns one weight of all the op's modules if their weights are consecutive in memory; otherwise
// one without data and blocks.
Weight base_together(const FusedRun& r) {
  const FusedModule& first = r.module();
  const bool in_blocks = stays_in_blocks(r, 0) && first.stored_bytes > 0;
  const void* next = in_blocks ? first.blocks.codes : first.weight;
  Weight all{first.weight, 0, in_blocks ? r.use(0).in : first.stride};
  if (in_blocks) all.blocks = &first.blocks;
  for (size_t i = 0; i < r.op.modules.size(); ++i) {
    const FusedModule& module = r.module(i);
    const bool follows = in_blocks ? module.blocks.codes == next && module.blocks.coding == first.blocks.coding
                                   : !r.modules.converts(module) && module.weight == next && module.stride == all.stride;
    if (!next || !follows) return {};
    next = static_cast<const char*>(next) + (in_blocks ? module.stored_bytes : r.use(i).out * all.stride * r.bytes());
    all.rows += r.use(i).out;
  }
  return all;
}

// Returns the adapter of one module alone: its dropout has a mask of its own, unlike that of
// modules that share x.
LoraGroup adapter_of(const FusedRun& r, size_t module, ValueId x, const Part& y, ValueId s) {
  const FusedModule& m = r.module(module);
  LoraGroup g{.type = r.type(),
              .tokens = r.m.tokens,
              .width = r.use(module).in,
              .rank = r.use(module).rank,
              .members = 1,
              .scale = m.scale,
              .x = r.m.data(x),
              .x_stride = r.m.stride(x),
              .a = m.a,
              .s = r.m.data(s),
              .s_type = r.device.separate() ? r.type() : Element::f32};
  g.member[0] = {.out = y.width, .b = m.b, .y = y.data, .y_stride = y.stride};
  if (r.batch.dropout && m.dropout > 0) g.dropout = dropout_of(r, m, r.batch.example, r.batch.position);
  return g;
}

// Calls visit(module, number among the adapted ones).
template <class Visit>
void each_adapter(const FusedRun& r, Visit visit) {
  for (size_t i = 0, adapter = 0; i < r.op.modules.size(); ++i)
    if (r.use(i).rank > 0) visit(i, adapter++);
}

// The terms that adapters add to the products of an op's modules, by module; s is computed before.
constexpr size_t kMostTails = 4;
using Tails = std::array<GemmTail, kMostTails>;

// True if the products add the adapters' terms.
bool adapters_run_on(const FusedRun& r) {
  bool whole_vectors = true;
  for (size_t i = 0; i < r.op.modules.size(); ++i) whole_vectors &= r.use(i).out % 16 == 0;
  return takes_tails(r) && whole_vectors && r.op.modules.size() <= kMostTails;
}

Tails tails_of(const FusedRun& r) {
  Tails tails;
  each_adapter(r, [&](size_t i, size_t adapter) {
    LoraGroup g = adapter_of(r, i, r.in(0), part(r, r.out(0), i), r.out(1 + adapter));
    tails[i] = {0, g.member[0].out, g.rank, g.scale, static_cast<const float*>(g.s), g.rank, g.member[0].b, g.rank};
    g.member[0].y = nullptr;
    r.device.run(LoraForward{g, r.workspace});
  });
  return tails;
}

}  // namespace

void linear(const FusedRun& r) {
  if (r.op.attributes.folded) return folded_linear(r);
  const ValueId x = r.in(0), y = r.out(0);
  const size_t modules = r.op.modules.size();
  const Weight all = base_together(r);
  bool biased = false;
  const auto bias = [&](size_t i) {  // added by the product, unless DoRA rescales
    const FusedModule& module = r.module(i);
    FORGE_CHECK(!module.magnitude || r.op.attributes.unscaled, "a list without the ops of its DoRA");
    return module.magnitude ? nullptr : module.bias;
  };
  for (size_t i = 0; i < modules; ++i) biased |= bias(i) != nullptr;
  const bool run_on = !any_fp8(r.m.graph, r.op) && adapters_run_on(r);
  const Part h = added(r);
  Tails tails = run_on ? tails_of(r) : Tails{};
  if (all.rows > 0 && !biased) {
    for (size_t i = 1; run_on && i < modules; ++i) tails[i].column = tails[i - 1].column + r.use(i - 1).out;
    product(r, r.m.tokens, whole(r, y), whole(r, x), all, nullptr, h, {tails.data(), run_on ? modules : 0});
  } else {
    const Fp8Products fp8(r, whole(r, x));
    for (size_t i = 0; i < modules; ++i)
      if (r.use(i).fp8)
        fp8.product(i, part(r, y, i), bias(i));
      else
        product(r, r.m.tokens, part(r, y, i), whole(r, x), multiplied(r, i), bias(i), h, {tails.data() + (run_on ? i : 0), run_on ? size_t{1} : 0});
  }
  if (run_on) return;
  each_adapter(r, [&](size_t i, size_t adapter) {
    r.device.run(LoraForward{adapter_of(r, i, x, part(r, y, i), r.out(1 + adapter)), r.workspace});
  });
}

// Computes the ratios of all columns, then one over their norms; columns without an adapter stay as
// they are.
void dora_ratio(const FusedRun& r) {
  const int64_t width = r.m.width(r.out(0)), bytes = width * static_cast<int64_t>(sizeof(float));
  float *const begin = r.m.numbers(r.out(0)), *ratio = begin, *inverse = begin + width / 2;
  std::vector<float>* known = r.m.ratios ? &(*r.m.ratios)[r.out(0)] : nullptr;
  if (known && !known->empty()) return r.device.write(begin, known->data(), bytes);
  for (size_t i = 0; i < r.op.modules.size(); ++i) {
    const ModuleUse& use = r.use(i);
    const FusedModule& m = r.module(i);
    FORGE_CHECK(r.modules.converts(m) || m.stride == use.in, "dora on a weight with gaps between its rows");
    if (use.rank > 0)
      r.device.run(DoraRatio{r.type(), use.out, use.in, use.rank, m.scale, base(r, i).data, m.a, m.b, m.magnitude, ratio,
                             inverse, r.workspace});
    ratio += use.out, inverse += use.out;
  }
  if (!known) return;
  known->resize(static_cast<size_t>(width));
  r.device.read(known->data(), begin, bytes);
}

namespace {

// Calls visit(module, its first column).
template <class Visit>
void each_module(const FusedRun& r, Visit visit) {
  for (size_t i = 0, column = 0; i < r.op.modules.size(); column += static_cast<size_t>(r.use(i++).out))
    visit(i, static_cast<int64_t>(column));
}

}  // namespace

void dora(const FusedRun& r) {
  each_module(r, [&](size_t i, int64_t column) {
    const Part from = part(r, r.in(0), i), to = part(r, r.out(0), i);
    if (r.use(i).rank == 0) return copy(r, r.m.tokens, from, to);
    r.device.run(DoraForward{.type = r.type(),
                             .rows = r.m.tokens,
                             .width = from.width,
                             .x = from.data,
                             .x_stride = from.stride,
                             .ratio = r.m.numbers(r.in(1)) + column,
                             .bias = r.module(i).bias,
                             .y = to.data,
                             .y_stride = to.stride});
  });
}

void dora_backward(const FusedRun& r) {
  const int64_t width = r.m.width(r.in(2)) / 2;
  each_module(r, [&](size_t i, int64_t column) {
    const Part d_y = part(r, r.in(0), i), x = part(r, r.in(1), i), d_x = whole(r, r.out(i));
    if (r.use(i).rank == 0) {
      if (d_x.data != d_y.data) copy(r, r.m.tokens, d_y, d_x);
      return;
    }
    r.device.run(DoraBackward{.type = r.type(),
                              .rows = r.m.tokens,
                              .width = d_y.width,
                              .x = x.data,
                              .x_stride = x.stride,
                              .ratio = r.m.numbers(r.in(2)) + column,
                              .inverse_norm = r.m.numbers(r.in(2)) + width + column,
                              .d_y = d_y.data,
                              .d_y_stride = d_y.stride,
                              .d_x = d_x.data,
                              .d_x_stride = d_x.stride,
                              .d_magnitude = r.module(i).d_magnitude});
  });
}

void linear_input_gradient(const FusedRun& r) {
  if (r.op.attributes.folded) return folded_input_gradient(r);
  const Part d_x = whole(r, r.out(0));
  const auto add = [&](const Part& d_y, const Weight& weight, bool accumulate) {
    input_gradient(r, r.m.tokens, d_x, d_y, weight, accumulate);
  };
  if (const Weight all = base_together(r); all.data) return add(whole(r, r.in(0)), all, r.op.attributes.accumulate);
  for (size_t i = 0; i < r.op.modules.size(); ++i) {
    const bool accumulate = r.op.attributes.accumulate || i > 0;
    if (r.use(i).fp8)
      fp8_input_gradient(r, i, d_x, part(r, r.in(0), i), accumulate);
    else
      add(part(r, r.in(0), i), base(r, i), accumulate);
  }
}

namespace {

// Returns the gradients of all the op's modules if they are consecutive in memory; otherwise null.
float* gradients_together(const FusedRun& r) {
  float *first = r.module().d_weight, *next = first;
  for (size_t i = 0; i < r.op.modules.size(); ++i) {
    if (!next || r.module(i).d_weight != next) return nullptr;
    next += r.use(i).out * r.use(i).in;
  }
  return first;
}

}  // namespace

void linear_weight_gradient(const FusedRun& r) {
  const Part x = whole(r, r.in(1));
  for (size_t i = 0; i < r.op.modules.size(); ++i)
    if (float* bias = r.module(i).d_bias) {
      const Part d_y = part(r, r.in(0), i);
      r.device.run(SumColumns{r.type(), r.m.tokens, d_y.width, d_y.data, d_y.stride, bias});
    }
  // In 16 bits a CPU's product is rounded in a workspace for one module.
  if (float* all = gradients_together(r); all && r.type() == Element::f32)
    return weight_gradient(r, r.m.tokens, all, whole(r, r.in(0)), x);
  for (size_t i = 0; i < r.op.modules.size(); ++i)
    if (float* gradient = r.module(i).d_weight) weight_gradient(r, r.m.tokens, gradient, part(r, r.in(0), i), x);
}

void adapter_gradient(const FusedRun& r) {
  const ValueId d_y = r.in(0), x = r.in(1);
  each_adapter(r, [&](size_t i, size_t adapter) {
    LoraBackward args{adapter_of(r, i, x, part(r, d_y, i), r.in(2 + adapter))};
    args.group.member[0].d_b = r.module(i).d_b;
    args.d_a = r.module(i).d_a;
    if (!r.op.out.empty()) args.d_x = r.m.data(r.out(0)), args.d_x_stride = r.m.stride(r.out(0));
    args.workspace = r.workspace;
    r.device.run(args);
  });
}

}  // namespace forge::fused
