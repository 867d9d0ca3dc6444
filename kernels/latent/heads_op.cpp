#include "kernels/latent/heads_op.h"

#include "core/graph/gradients.h"
#include "kernels/call/run.h"
#include "kernels/latent/latent_args.h"
#include "kernels/rope/rope_args.h"
#include "kernels/rows/rows_args.h"

namespace forge {

std::array<ValueId, 3> regroup(Recorder& g, ValueId x, const Heads& heads) {
  const int64_t q = heads.heads * heads.head_dim, kv = heads.kv_heads * heads.head_dim;
  ValueId y = g.like("qkv", x, q + 2 * kv);
  Attributes& a = g.push(&ops::regroup, {x}, {y}).attributes;
  a.heads = heads.heads, a.kv_heads = heads.kv_heads, a.head_dim = heads.head_dim;
  return g.split(y, {q, kv, kv});
}

std::array<ValueId, 3> latent_heads(Recorder& g, ValueId q, ValueId kv, ValueId key, const LatentSizes& heads) {
  const int64_t width = heads.heads * heads.head_dim;
  ValueId y = g.like("qkv", q, 3 * width);
  Attributes& a = g.push(&ops::latent_heads, {q, kv, key}, {y}).attributes;
  a.heads = a.kv_heads = heads.heads, a.head_dim = heads.head_dim;
  a.rope_dim = heads.rope_dim, a.value_dim = heads.value_dim;
  return g.split(y, {width, width, width});
}

ValueId trim_heads(Recorder& g, ValueId x, const LatentSizes& heads) {
  ValueId y = g.like("trimmed", x, heads.heads * heads.value_dim);
  Attributes& a = g.push(&ops::trim_heads, {x}, {y}).attributes;
  a.heads = a.kv_heads = heads.heads, a.head_dim = heads.head_dim, a.value_dim = heads.value_dim;
  return y;
}

namespace {

void derive_regroup(Gradients& g, const Op& forward) {
  g.contribute(g.like(&ops::regroup_backward, forward, {g.whole_gradient(forward)}), forward.in[0]);
}

void derive_latent_heads(Gradients& g, const Op& forward) {
  Op op = g.like(&ops::latent_heads_backward, forward, {g.whole_gradient(forward)});
  for (ValueId in : forward.in) op.out.push_back(g.new_gradient(in));
  g.push(std::move(op));
}

void derive_trim_heads(Gradients& g, const Op& forward) {
  Op op = g.like(&ops::trim_heads_backward, forward, {g.gradient(forward.out[0])});
  op.out = {g.new_gradient(forward.in[0])};
  g.push(std::move(op));
}

RegroupHeads regroup_args(const Call& c) {
  const Attributes& a = c.op.attributes;
  return {.element_bytes = c.bytes(),
          .rows = c.m.rows(c.in(0)),
          .heads = a.heads,
          .kv_heads = a.kv_heads,
          .head_dim = a.head_dim,
          .to_groups = c.op.kind == &ops::regroup_backward,
          .x = c.m.data(c.in(0)),
          .x_stride = c.m.stride(c.in(0)),
          .y = c.m.data(c.out(0)),
          .y_stride = c.m.stride(c.out(0))};
}

// Assembles the heads, or in the backward splits their gradients.
LatentHeads latent_heads_args(const Call& c) {
  const Attributes& a = c.op.attributes;
  const bool back = c.op.kind == &ops::latent_heads_backward;
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

TrimHeads trim_heads_args(const Call& c) {
  const Attributes& a = c.op.attributes;
  const bool back = c.op.kind == &ops::trim_heads_backward;
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

}  // namespace

const OpRecord ops::regroup{.name = "regroup", .derive = derive_regroup, .run = by<regroup_args>};
const OpRecord ops::regroup_backward{.name = "regroup backward", .run = by<regroup_args>, .copies = {.results = 3, .operands = 1}};
const OpRecord ops::latent_heads{.name = "latent heads", .derive = derive_latent_heads, .run = by<latent_heads_args>, .copies = {.results = 2}};
const OpRecord ops::latent_heads_backward{.name = "latent heads backward", .run = by<latent_heads_args>, .copies = {.results = 3, .operands = 1}};
const OpRecord ops::trim_heads{.name = "trim heads", .derive = derive_trim_heads, .run = by<trim_heads_args>};
const OpRecord ops::trim_heads_backward{.name = "trim heads backward", .run = by<trim_heads_args>, .copies = {.results = 3, .operands = 1}};

}  // namespace forge
