#include "kernels/layer_norm/layer_norm_op.h"

#include "kernels/call/derive.h"
#include "kernels/call/run.h"
#include "kernels/layer_norm/layer_norm_args.h"

namespace forge {

namespace {

// `modules`: the norm's own, or none.
ValueId layer_norm_as(Recorder& g, ValueType type, ValueId x, const std::string& name, std::vector<int32_t> modules, double eps) {
  const std::string part = last_part(name);
  ValueId y = g.like(part, x, g.graph.value(x).width, type);
  ValueId statistics = g.like(part + ".statistics", x, 2, ValueType::fp32);
  g.push(&ops::layer_norm, {x}, {y, statistics}, std::move(modules)).attributes.eps = eps;
  return y;
}

int32_t norm_module(Recorder& g, ValueId x, const std::string& module, bool bias) {
  const int64_t width = g.graph.value(x).width;
  return g.module_at(module, ModuleKind::norm, width, width, bias);
}

}  // namespace

ValueId layer_norm(Recorder& g, ValueId x, const std::string& module, double eps, bool bias, double weight_offset) {
  const ValueId y = layer_norm_as(g, ValueType::compute, x, module, {norm_module(g, x, module, bias)}, eps);
  g.graph.ops.back().attributes.weight_offset = weight_offset;
  return y;
}

ValueId bare_layer_norm(Recorder& g, ValueId x, const std::string& name, double eps) {
  return layer_norm_as(g, ValueType::compute, x, name, {}, eps);
}

ValueId stream_norm(Recorder& g, ValueId x, const std::string& module, double eps, bool bias) {
  return layer_norm_as(g, g.stream, x, module, {norm_module(g, x, module, bias)}, eps);
}

namespace {

LayerNormForward layer_norm_args(const Call& c) {
  auto args = over_rows<LayerNormForward>(c, c.in(0));
  args.x_type = c.m.element(c.in(0));
  if (!c.op.modules.empty()) args.weight = c.module().weight, args.bias = c.module().bias;
  args.weight_offset = static_cast<float>(c.op.attributes.weight_offset);
  args.eps = static_cast<float>(c.op.attributes.eps);
  args.statistics = c.m.numbers(c.out(1));
  c.place(c.in(0), args.x, args.x_stride);
  c.place(c.out(0), args.y, args.y_stride);
  return args;
}

LayerNormBackward layer_norm_backward_args(const Call& c) {
  auto args = over_rows<LayerNormBackward>(c, c.in(0));
  args.x_type = c.m.element(c.in(1));
  args.accumulate = c.op.attributes.accumulate;
  args.weight_offset = static_cast<float>(c.op.attributes.weight_offset);
  if (!c.op.modules.empty()) {
    args.weight = c.module().weight;
    args.d_weight = c.module().d_weight, args.d_bias = c.module().d_bias;
  }
  args.statistics = c.m.numbers(c.in(2)), args.workspace = c.workspace;
  c.place(c.in(0), args.d_y, args.d_y_stride);
  c.place(c.in(1), args.x, args.x_stride);
  c.place(c.out(0), args.d_x, args.d_x_stride);
  return args;
}

int64_t backward_workspace(const Call& c) { return c.m.capacity.gpu ? layer_norm_backward_cuda_workspace(layer_norm_backward_args(c)) : 0; }

}  // namespace

const OpRecord ops::layer_norm{.name = "layer norm",
                               .flops = flops::elementwise,
                               .types = types::any,
                               .derive = derive::added<&ops::layer_norm_backward, 1, 1>,
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
