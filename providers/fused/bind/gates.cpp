#include "core/model/functions.h"
#include "providers/fused/bind.h"

namespace forge::bind {

namespace {

template <class Args>
Args gate_args(const Call& c, ValueId gate, ValueId up) {
  Args args{.type = c.type()};
  args.function = function_of(c.op.attributes.gate);
  args.rows = c.m.rows(gate), args.width = c.m.width(gate);
  args.gate = c.m.data(gate), args.gate_stride = c.m.stride(gate);
  args.up = c.m.data(up), args.up_stride = c.m.stride(up);
  return args;
}

template <class Args>
Args pairs_args(const Call& c, ValueId pairs) {
  Args args{.type = c.type()};
  args.rows = c.m.rows(pairs), args.width = c.m.width(pairs) / 2;
  args.limit = static_cast<float>(c.op.attributes.gate_limit),
  args.alpha = static_cast<float>(c.op.attributes.gate_alpha);
  args.pairs = c.m.data(pairs), args.pairs_stride = c.m.stride(pairs);
  return args;
}

}  // namespace

ActivationForward activation(const Call& c) {
  return {.type = c.type(),
          .function = function_of(c.op.attributes.activation),
          .rows = c.m.rows(c.in(0)),
          .width = c.m.width(c.in(0)),
          .x = c.m.data(c.in(0)),
          .x_stride = c.m.stride(c.in(0)),
          .y = c.m.data(c.out(0)),
          .y_stride = c.m.stride(c.out(0))};
}

ActivationBackward activation_backward(const Call& c) {
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

ClampedGluForward clamped_glu(const Call& c) {
  auto args = pairs_args<ClampedGluForward>(c, c.in(0));
  args.y = c.m.data(c.out(0)), args.y_stride = c.m.stride(c.out(0));
  return args;
}

ClampedGluBackward clamped_glu_backward(const Call& c) {
  auto args = pairs_args<ClampedGluBackward>(c, c.in(1));
  args.d_y = c.m.data(c.in(0)), args.d_y_stride = c.m.stride(c.in(0));
  if (c.op.out.size() > 1) args.y = c.m.data(c.out(1)), args.y_stride = c.m.stride(c.out(1));
  return args;
}

SwigluForward glu(const Call& c) {
  auto args = gate_args<SwigluForward>(c, c.in(0), c.in(1));
  args.y = c.m.data(c.out(0)), args.y_stride = c.m.stride(c.out(0));
  return args;
}

SwigluBackward glu_backward(const Call& c) {
  auto args = gate_args<SwigluBackward>(c, c.in(1), c.in(2));
  args.d_y = c.m.data(c.in(0)), args.d_y_stride = c.m.stride(c.in(0));
  if (c.op.out.size() > 2) args.y = c.m.data(c.out(2)), args.y_stride = c.m.stride(c.out(2));
  return args;
}

}  // namespace forge::bind
