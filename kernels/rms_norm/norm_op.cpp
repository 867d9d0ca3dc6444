#include "kernels/rms_norm/norm_op.h"

#include "kernels/call/derive.h"
#include "kernels/call/run.h"
#include "kernels/rms_norm/rms_norm_args.h"

namespace forge {

ValueId norm(Recorder& g, ValueId x, const std::string& module, double eps, double weight_offset) {
  return head_norm(g, x, module, g.graph.value(x).width, eps, weight_offset);
}

// Norms each head of x by itself, by the weight of `at`.
static ValueId normed(Recorder& g, ValueId x, const std::string& module, int32_t at, int64_t head_dim, double eps, double weight_offset) {
  const std::string part = last_part(module);
  const int64_t width = g.graph.value(x).width;
  ValueId y = g.like(part, x, width);
  ValueId inverse = g.like(part + ".inverse", x, width / head_dim, ValueType::fp32);
  if (weight_offset == 0) g.use_at(at).first = FirstValues::ones;
  Attributes& a = g.push(&ops::norm, {x}, {y, inverse}, {at}).attributes;
  a.eps = eps;
  a.weight_offset = weight_offset;
  a.head_dim = head_dim;
  return y;
}

ValueId head_norm(Recorder& g, ValueId x, const std::string& module, int64_t head_dim, double eps, double weight_offset) {
  return normed(g, x, module, g.module_at(module, ModuleKind::norm, head_dim, head_dim), head_dim, eps, weight_offset);
}

ValueId part_norm(Recorder& g, ValueId x, const std::string& module, int64_t heads, double eps) {
  const int64_t width = g.graph.value(x).width;
  const ValueId y = normed(g, x, module, g.module_at(module, ModuleKind::norm, width, width), width / heads, eps, 0);
  g.graph.ops.back().attributes.head_weights = heads > 1;
  return y;
}

ValueId vector_norm(Recorder& g, ValueId x, const std::string& vector, double eps) {
  const int64_t width = g.graph.value(x).width;
  return normed(g, x, vector, g.module_at(vector, ModuleKind::vector, 0, width), width, eps, 0);
}

ValueId unit_norm(Recorder& g, ValueId x, int64_t head_dim, double eps) {
  ValueId y = g.like("unit", x, g.graph.value(x).width);
  Attributes& a = g.push(&ops::unit_norm, {x}, {y}).attributes;
  a.eps = eps, a.head_dim = head_dim;
  return y;
}

namespace {

// The stream may be fp32 beside the branch and the result.
bool stream_and_branch(const Graph& graph, const Op& op) {
  return types::of_result(graph, op) && graph.buffer_of(op.in[1]).type == ValueType::compute && graph.buffer_of(op.out[1]).type == ValueType::compute;
}

// Returns the arguments that forward and backward share. Each head is normalised by itself: it has
// the width of the whole row, except in norms of q and k.
template <class Args>
Args over_heads(const Call& c, ValueId rows, ValueId stream) {
  auto args = over_rows<Args>(c, rows);
  args.width = c.op.attributes.head_dim, args.heads = c.m.width(rows) / args.width;
  args.stream_type = c.m.element(stream);
  args.weight = c.module().weight;
  args.weight_offset = static_cast<float>(c.op.attributes.weight_offset);
  args.head_weights = c.op.attributes.head_weights;
  return args;
}

RmsNormForward norm_args(const Call& c) {
  const bool adds = c.op.kind == &ops::add_norm;
  const ValueId x = c.in(adds ? 1 : 0), y = c.out(adds ? 1 : 0), inverse = c.out(adds ? 2 : 1);
  auto args = over_heads<RmsNormForward>(c, x, c.in(0));
  c.place(x, args.x, args.x_stride);
  if (adds) {
    c.place(c.in(0), args.residual, args.residual_stride);
    c.place(c.out(0), args.h, args.h_stride);
  }
  args.eps = static_cast<float>(c.op.attributes.eps);
  c.place(y, args.y, args.y_stride);
  args.inverse = c.m.numbers(inverse);
  return args;
}

RmsNormBackward norm_backward_args(const Call& c) {
  auto args = over_heads<RmsNormBackward>(c, c.in(0), c.in(1));
  c.place(c.in(0), args.d_y, args.d_y_stride);
  c.place(c.in(1), args.h, args.h_stride);
  c.place(c.out(0), args.d_h, args.d_h_stride);
  if (c.op.out.size() > 1) c.place(c.out(1), args.y, args.y_stride);
  args.inverse = c.m.numbers(c.in(2));
  args.accumulate = c.op.attributes.accumulate;
  args.d_weight = c.module().d_weight, args.workspace = c.workspace;
  return args;
}

int64_t backward_workspace(const Call& c) { return c.m.capacity.gpu ? rms_norm_backward_cuda_workspace(norm_backward_args(c)) : 0; }

}  // namespace

const OpRecord ops::norm{.name = "norm",
                         .flops = flops::elementwise,
                         .types = types::any,
                         .derive = derive::added<&ops::norm_backward, 1, 1>,
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
const OpRecord ops::unit_norm{.name = "unit norm", .flops = flops::elementwise, .derive = derive::added<&ops::unit_norm_backward, 1>, .copies = {.wide = 3}};
const OpRecord ops::unit_norm_backward{.name = "unit norm backward",
                                       .flops = flops::elementwise,
                                       .copies = {.operands = 1, .wide = 6},
                                       .gradient_of = {&ops::unit_norm, 1}};

}  // namespace forge
