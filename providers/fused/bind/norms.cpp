#include "providers/fused/bind.h"

namespace forge::bind {

// Normalises each head by itself. A head has the width of the whole row, except in norms of q and
// k.
RmsNormForward norm(const Call& c) {
  const bool adds = c.op.kind == OpKind::add_norm;
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

RmsNormBackward norm_backward(const Call& c) {
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

LayerNormForward layer_norm(const Call& c) {
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

LayerNormBackward layer_norm_backward(const Call& c) {
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

}  // namespace forge::bind
