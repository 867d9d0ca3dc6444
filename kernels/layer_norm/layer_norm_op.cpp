#include "kernels/layer_norm/layer_norm_op.h"

#include "core/graph/gradients.h"
#include "kernels/call/run.h"
#include "kernels/layer_norm/layer_norm_args.h"

namespace forge {

namespace {

ValueId layer_norm_as(Recorder& g, ValueType type, ValueId x, const std::string& module, double eps, bool bias) {
  const std::string part = last_part(module);
  const int64_t width = g.graph.value(x).width;
  ValueId y = g.like(part, x, width, type);
  ValueId statistics = g.like(part + ".statistics", x, 2, ValueType::fp32);
  const int32_t at = g.module_at(module, ModuleKind::norm, width, width, bias);
  g.push(&ops::layer_norm, {x}, {y, statistics}, {at}).attributes.eps = eps;
  return y;
}

}  // namespace

ValueId layer_norm(Recorder& g, ValueId x, const std::string& module, double eps, bool bias) {
  return layer_norm_as(g, ValueType::compute, x, module, eps, bias);
}

ValueId stream_norm(Recorder& g, ValueId x, const std::string& module, double eps, bool bias) {
  return layer_norm_as(g, g.stream, x, module, eps, bias);
}

namespace {

void derive_layer_norm(Gradients& g, const Op& forward) {
  Op op = g.with_modules(&ops::layer_norm_backward, forward, {g.gradient(forward.out[0]), g.need(forward.in[0]), g.need(forward.out[1])});
  g.contribute(std::move(op), forward.in[0]);
}

LayerNormForward layer_norm_args(const Call& c) {
  return {.type = c.type(),
          .rows = c.m.rows(c.in(0)),
          .width = c.m.width(c.in(0)),
          .x = c.m.data(c.in(0)),
          .x_stride = c.m.stride(c.in(0)),
          .weight = c.module().weight,
          .bias = c.module().bias,
          .eps = static_cast<float>(c.op.attributes.eps),
          .y = c.m.data(c.out(0)),
          .y_stride = c.m.stride(c.out(0)),
          .statistics = c.m.numbers(c.out(1)),
          .x_type = c.m.element(c.in(0))};
}

LayerNormBackward layer_norm_backward_args(const Call& c) {
  return {.type = c.type(),
          .rows = c.m.rows(c.in(0)),
          .width = c.m.width(c.in(0)),
          .d_y = c.m.data(c.in(0)),
          .d_y_stride = c.m.stride(c.in(0)),
          .x = c.m.data(c.in(1)),
          .x_stride = c.m.stride(c.in(1)),
          .weight = c.module().weight,
          .statistics = c.m.numbers(c.in(2)),
          .d_x = c.m.data(c.out(0)),
          .d_x_stride = c.m.stride(c.out(0)),
          .accumulate = c.op.attributes.accumulate,
          .d_weight = c.module().d_weight,
          .d_bias = c.module().d_bias,
          .workspace = c.workspace,
          .x_type = c.m.element(c.in(1))};
}

int64_t backward_workspace(const Call& c) { return c.m.capacity.gpu ? layer_norm_backward_cuda_workspace(layer_norm_backward_args(c)) : 0; }

}  // namespace

const OpRecord ops::layer_norm{.name = "layer norm",
                               .flops = flops::elementwise,
                               .types = types::any,
                               .derive = derive_layer_norm,
                               .run = by<layer_norm_args>,
                               .copies = {.wide = 3}};
const OpRecord ops::layer_norm_backward{.name = "layer norm backward",
                                        .flops = flops::elementwise,
                                        .types = types::norm_gradient,
                                        .run = by<layer_norm_backward_args>,
                                        .workspace = backward_workspace,
                                        .copies = {.operands = 1,
                                        .wide = 6},
                                        .gradient_of = {&ops::layer_norm, 1}};

}  // namespace forge
