#include "kernels/fp8/fp8_op.h"

#include <algorithm>

#include "core/graph/layout.h"
#include "kernels/linear/linear_op.h"

namespace forge::bind {

bool any_fp8(const Graph& graph, const Op& op) {
  for (size_t i = 0; i < op.modules.size(); ++i)
    if (graph.module(op, i).fp8) return true;
  return false;
}

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
  args.workspace = c.at(fp8_space(c).product);
  return args;
}

}  // namespace

Fp8Space fp8_space(const Call& c) {
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

QuantizeRows fp8_rows(const Call& c, const Part& x, const float* factors) {
  return {.type = c.type(),
          .rows = c.tokens(),
          .columns = x.width,
          .x = x.data,
          .x_stride = x.stride,
          .factors = factors,
          .codes = c.at<uint8_t>(0),
          .codes_stride = x.width,
          .scales = c.at<float>(fp8_space(c).scales)};
}

ScaledProduct fp8_linear(const Call& c, size_t module, const QuantizeRows& x) {
  ScaledProduct args = of_rows(c, module, x, part(c, c.out(0), module));
  args.b = c.module(module).blocks.codes, args.b_scales = c.module(module).blocks.absmax;
  args.quick_sums = true;
  return args;
}

ScaledProduct fp8_input_gradient(const Call& c, size_t module, const QuantizeRows& d_y,
                                 const uint8_t* transposed, const float* ones) {
  ScaledProduct args = of_rows(c, module, d_y, whole(c, c.out(0)));
  args.b = transposed, args.b_scales = ones;
  return args;
}

}  // namespace forge::bind
