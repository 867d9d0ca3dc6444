#include "providers/fused/bind.h"

namespace forge::bind {

std::vector<Rope> rope(const Call& c) {
  const Attributes& a = c.op.attributes;
  Rope args{.type = c.type(),
            .layout = a.interleaved ? RopeLayout::interleaved : RopeLayout::half_split,
            .backward = c.op.kind == OpKind::rope_backward,
            .tokens = c.tokens(),
            .head_dim = a.head_dim,
            .rotary_dim = c.batch.rotary_dim,
            .cosine = a.window_angles ? c.batch.window_cosine : c.batch.cosine,
            .sine = a.window_angles ? c.batch.window_sine : c.batch.sine};
  const auto turn = [&](ValueId x, int64_t heads, int64_t kv_heads) {
    args.heads = heads, args.kv_heads = kv_heads;
    args.qkv = c.m.data(x), args.stride = c.m.stride(x);
    return args;
  };
  const Value &q = c.m.graph.value(c.out(0)), &k = c.m.graph.value(c.out(1));
  if (q.buffer == k.buffer && q.column + q.width == k.column) return {turn(c.out(0), a.heads, a.kv_heads)};
  return {turn(c.out(0), a.heads, 0), turn(c.out(1), a.kv_heads, 0)};
}

RegroupHeads regroup(const Call& c) {
  const Attributes& a = c.op.attributes;
  return {.element_bytes = c.bytes(),
          .rows = c.m.rows(c.in(0)),
          .heads = a.heads,
          .kv_heads = a.kv_heads,
          .head_dim = a.head_dim,
          .to_groups = c.op.kind == OpKind::regroup_backward,
          .x = c.m.data(c.in(0)),
          .x_stride = c.m.stride(c.in(0)),
          .y = c.m.data(c.out(0)),
          .y_stride = c.m.stride(c.out(0))};
}

// Assembles the heads, or in the backward splits their gradients.
LatentHeads latent_heads(const Call& c) {
  const Attributes& a = c.op.attributes;
  const bool back = c.op.kind == OpKind::latent_heads_backward;
  const std::vector<ValueId>& apart = back ? c.op.out : c.op.in;
  const ValueId all = back ? c.in(0) : c.out(0);
  return {.type = c.type(),
          .rows = c.m.rows(all),
          .heads = a.heads,
          .head_dim = a.head_dim,
          .rope_dim = a.rope_dim,
          .value_dim = a.value_dim,
          .back = back,
          .q = c.m.data(apart[0]),
          .q_stride = c.m.stride(apart[0]),
          .kv = c.m.data(apart[1]),
          .kv_stride = c.m.stride(apart[1]),
          .key = c.m.data(apart[2]),
          .key_stride = c.m.stride(apart[2]),
          .all = c.m.data(all),
          .all_stride = c.m.stride(all)};
}

TrimHeads trim_heads(const Call& c) {
  const Attributes& a = c.op.attributes;
  const bool back = c.op.kind == OpKind::trim_heads_backward;
  const ValueId whole = back ? c.out(0) : c.in(0), trimmed = back ? c.in(0) : c.out(0);
  return {.element_bytes = c.bytes(),
          .rows = c.m.rows(whole),
          .heads = a.heads,
          .head_dim = a.head_dim,
          .value_dim = a.value_dim,
          .back = back,
          .x = c.m.data(whole),
          .x_stride = c.m.stride(whole),
          .y = c.m.data(trimmed),
          .y_stride = c.m.stride(trimmed)};
}

}  // namespace forge::bind
