#include "kernels/rms_norm/norm_op.h"

#include "core/graph/gradients.h"
#include "kernels/call/run.h"
#include "kernels/rms_norm/rms_norm_args.h"

namespace forge {

ValueId norm(Recorder& g, ValueId x, const std::string& module, double eps, double weight_offset) {
  return head_norm(g, x, module, g.graph.value(x).width, eps, weight_offset);
}

ValueId head_norm(Recorder& g, ValueId x, const std::string& module, int64_t head_dim, double eps, double weight_offset) {
  const std::string part = last_part(module);
  const int64_t width = g.graph.value(x).width;
  ValueId y = g.like(part, x, width);
  ValueId inverse = g.like(part + ".inverse", x, width / head_dim, ValueType::fp32);
  const int32_t at = g.module_at(module, ModuleKind::norm, head_dim, head_dim);
  Attributes& a = g.push(&ops::norm, {x}, {y, inverse}, {at}).attributes;
  a.eps = eps;
  a.weight_offset = weight_offset;
  a.head_dim = head_dim;
  return y;
}

namespace {

// The stream may be fp32 beside the branch and the result.
bool stream_and_branch(const Graph& graph, const Op& op) {
  return types::of_result(graph, op) && graph.buffer_of(op.in[1]).type == ValueType::compute && graph.buffer_of(op.out[1]).type == ValueType::compute;
}

void derive_norm(Gradients& g, const Op& forward) {
  Op op = g.with_modules(&ops::norm_backward, forward, {g.gradient(forward.out[0]), g.need(forward.in[0]), g.need(forward.out[1])});
  g.contribute(std::move(op), forward.in[0]);
}

// Normalises each head by itself. A head has the width of the whole row, except in norms of q and
// k.
RmsNormForward norm_args(const Call& c) {
  const bool adds = c.op.kind == &ops::add_norm;
  const ValueId x = c.in(adds ? 1 : 0), y = c.out(adds ? 1 : 0), inverse = c.out(adds ? 2 : 1);
  const int64_t width = c.op.attributes.head_dim;
  RmsNormForward args{.type = c.type(), .rows = c.m.rows(x), .width = width};
  args.stream_type = c.m.element(c.in(0));
  args.heads = c.m.width(x) / width;
  args.x = c.m.data(x), args.x_stride = c.m.stride(x);
  if (adds) {
    args.residual = c.m.data(c.in(0)), args.residual_stride = c.m.stride(c.in(0));
    args.h = c.m.data(c.out(0)), args.h_stride = c.m.stride(c.out(0));
  }
  args.weight = c.module().weight;
  args.weight_offset = static_cast<float>(c.op.attributes.weight_offset);
  args.eps = static_cast<float>(c.op.attributes.eps);
  args.y = c.m.data(y), args.y_stride = c.m.stride(y);
  args.inverse = c.m.numbers(inverse);
  return args;
}

RmsNormBackward norm_backward_args(const Call& c) {
  const int64_t width = c.op.attributes.head_dim;
  const bool again = c.op.out.size() > 1;
  return {.type = c.type(),
          .rows = c.m.rows(c.in(0)),
          .width = width,
          .d_y = c.m.data(c.in(0)),
          .d_y_stride = c.m.stride(c.in(0)),
          .h = c.m.data(c.in(1)),
          .h_stride = c.m.stride(c.in(1)),
          .weight = c.module().weight,
          .weight_offset = static_cast<float>(c.op.attributes.weight_offset),
          .inverse = c.m.numbers(c.in(2)),
          .d_h = c.m.data(c.out(0)),
          .d_h_stride = c.m.stride(c.out(0)),
          .accumulate = c.op.attributes.accumulate,
          .d_weight = c.module().d_weight,
          .heads = c.m.width(c.in(0)) / width,
          .workspace = c.workspace,
          .y = again ? c.m.data(c.out(1)) : nullptr,
          .y_stride = again ? c.m.stride(c.out(1)) : 0,
          .stream_type = c.m.element(c.in(1))};
}

int64_t backward_workspace(const Call& c) { return c.m.capacity.gpu ? rms_norm_backward_cuda_workspace(norm_backward_args(c)) : 0; }

}  // namespace

const OpRecord ops::norm{.name = "norm",
                         .flops = flops::elementwise,
                         .types = types::any,
                         .derive = derive_norm,
                         .run = by<norm_args>,
                         .copies = {.wide = 3}};
const OpRecord ops::add_norm{.name = "add+norm",
                             .flops = flops::elementwise,
                             .types = stream_and_branch,
                             .run = by<norm_args>,
                             .copies = {.results = 2,
                             .wide = 3}};
const OpRecord ops::norm_backward{.name = "norm backward",
                                  .flops = flops::elementwise,
                                  .types = types::norm_gradient,
                                  .run = by<norm_backward_args>,
                                  .workspace = backward_workspace,
                                  .copies = {.operands = 1,
                                  .wide = 6},
                                  .gradient_of = {&ops::norm, 1}};

}  // namespace forge
