#include "kernels/activation/activation_op.h"

#include "core/graph/gradients.h"
#include "kernels/activation/activation_args.h"
#include "kernels/call/functions.h"
#include "kernels/call/run.h"

namespace forge {

ValueId activation(Recorder& g, ValueId x, ActivationKind kind) {
  ValueId y = g.like("activated", x, g.graph.value(x).width);
  g.push(&ops::activation, {x}, {y}).attributes.activation = kind;
  return y;
}

namespace {

void derive_activation(Gradients& g, const Op& forward) {
  Op op = g.like(&ops::activation_backward, forward,
                 {g.gradient(forward.out[0]), g.need(forward.in[0])});
  const int32_t place = g.graph.value(op.in[1]).buffer;
  g.mirror(forward.in[0], place);
  op.out = {g.gradient_in(forward.in[0], place)};
  g.push(std::move(op));
}

ActivationForward activation_args(const Call& c) {
  return {.type = c.type(),
          .function = function_of(c.op.attributes.activation),
          .rows = c.m.rows(c.in(0)),
          .width = c.m.width(c.in(0)),
          .x = c.m.data(c.in(0)),
          .x_stride = c.m.stride(c.in(0)),
          .y = c.m.data(c.out(0)),
          .y_stride = c.m.stride(c.out(0))};
}

ActivationBackward activation_backward_args(const Call& c) {
  return {.type = c.type(),
          .function = function_of(c.op.attributes.activation),
          .rows = c.m.rows(c.in(0)),
          .width = c.m.width(c.in(0)),
          .d_y = c.m.data(c.in(0)),
          .d_y_stride = c.m.stride(c.in(0)),
          .x = c.m.data(c.in(1)),
          .x_stride = c.m.stride(c.in(1)),
          .d_x = c.m.data(c.out(0)),
          .d_x_stride = c.m.stride(c.out(0))};
}

}  // namespace

const OpRecord ops::activation{.name = "activation", .flops = flops::elementwise, .derive = derive_activation, .run = by<activation_args>};
const OpRecord ops::activation_backward{.name = "activation backward", .flops = flops::elementwise, .run = by<activation_backward_args>, .gradient_of = {&ops::activation, 1}};

}  // namespace forge
