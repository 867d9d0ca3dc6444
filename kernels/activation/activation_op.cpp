#include "kernels/activation/activation_op.h"

#include "kernels/activation/activation_args.h"
#include "kernels/call/derive.h"
#include "kernels/call/functions.h"
#include "kernels/call/run.h"

namespace forge {

ValueId activation(Recorder& g, ValueId x, ActivationKind kind, double limit) {
  ValueId y = g.like("activated", x, g.graph.value(x).width);
  Attributes& attributes = g.push(&ops::activation, {x}, {y}).attributes;
  attributes.activation = kind, attributes.limit = limit;
  return y;
}

namespace {

ActivationForward activation_args(const Call& c) {
  auto args = over_rows<ActivationForward>(c, c.in(0));
  args.function = function_of(c.op.attributes.activation);
  args.limit = static_cast<float>(c.op.attributes.limit);
  c.place(c.in(0), args.x, args.x_stride);
  c.place(c.out(0), args.y, args.y_stride);
  return args;
}

ActivationBackward activation_backward_args(const Call& c) {
  auto args = over_rows<ActivationBackward>(c, c.in(0));
  args.function = function_of(c.op.attributes.activation);
  args.limit = static_cast<float>(c.op.attributes.limit);
  c.place(c.in(0), args.d_y, args.d_y_stride);
  c.place(c.in(1), args.x, args.x_stride);
  c.place(c.out(0), args.d_x, args.d_x_stride);
  return args;
}

}  // namespace

const OpRecord ops::activation{.name = "activation", .flops = flops::elementwise, .derive = derive::in_place<&ops::activation_backward>, .run = by<activation_args>};
const OpRecord ops::activation_backward{.name = "activation backward", .flops = flops::elementwise, .run = by<activation_backward_args>, .gradient_of = {&ops::activation, 1}};

}  // namespace forge
