#include "kernels/latent/heads_op.h"

#include "kernels/call/derive.h"
#include "kernels/call/run.h"
#include "kernels/latent/latent_args.h"
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

ValueId split_groups(Recorder& g, ValueId x, const GroupParts& parts) {
  ValueId y = g.like("split", x, g.graph.value(x).width);
  Attributes& a = g.push(&ops::split_groups, {x}, {y}).attributes;
  a.heads = parts.groups, a.head_dim = parts.first, a.value_dim = parts.second;
  return y;
}

namespace {

RegroupHeads regroup_args(const Call& c) {
  const Attributes& a = c.op.attributes;
  RegroupHeads args{c.bytes(), c.m.rows(c.in(0)), a.heads, a.kv_heads, a.head_dim};
  args.to_groups = c.op.kind == &ops::regroup_backward;
  c.place(c.in(0), args.x, args.x_stride);
  c.place(c.out(0), args.y, args.y_stride);
  return args;
}

// Assembles the heads, or in the backward splits their gradients.
LatentHeads latent_heads_args(const Call& c) {
  const Attributes& a = c.op.attributes;
  const bool back = c.op.kind == &ops::latent_heads_backward;
  const std::vector<ValueId>& apart = back ? c.op.out : c.op.in;
  const ValueId all = back ? c.in(0) : c.out(0);
  LatentHeads args{c.type(), c.m.rows(all), a.heads, a.head_dim, a.rope_dim, a.value_dim, back};
  c.place(apart[0], args.q, args.q_stride);
  c.place(apart[1], args.kv, args.kv_stride);
  c.place(apart[2], args.key, args.key_stride);
  c.place(all, args.all, args.all_stride);
  return args;
}

TrimHeads trim_heads_args(const Call& c) {
  const Attributes& a = c.op.attributes;
  const bool back = c.op.kind == &ops::trim_heads_backward;
  const ValueId whole = back ? c.out(0) : c.in(0), trimmed = back ? c.in(0) : c.out(0);
  TrimHeads args{c.bytes(), c.m.rows(whole), a.heads, a.head_dim, a.value_dim, back};
  c.place(whole, args.x, args.x_stride);
  c.place(trimmed, args.y, args.y_stride);
  return args;
}

SplitGroups split_groups_args(const Call& c) {
  const Attributes& a = c.op.attributes;
  const bool back = c.op.kind == &ops::split_groups_backward;
  const ValueId x = back ? c.out(0) : c.in(0), y = back ? c.in(0) : c.out(0);
  SplitGroups args{c.bytes(), c.m.rows(x), a.heads, a.head_dim, a.value_dim, back};
  c.place(x, args.x, args.x_stride);
  c.place(y, args.y, args.y_stride);
  return args;
}

}  // namespace

const OpRecord ops::regroup{.name = "regroup", .derive = derive::added<&ops::regroup_backward>, .run = by<regroup_args>};
const OpRecord ops::regroup_backward{.name = "regroup backward", .run = by<regroup_args>, .copies = {.results = 3, .operands = 1}};
const OpRecord ops::latent_heads{.name = "latent heads", .derive = derive::apart<&ops::latent_heads_backward>, .run = by<latent_heads_args>, .copies = {.results = 2}};
const OpRecord ops::latent_heads_backward{.name = "latent heads backward", .run = by<latent_heads_args>, .copies = {.results = 3, .operands = 1}};
const OpRecord ops::trim_heads{.name = "trim heads", .derive = derive::apart<&ops::trim_heads_backward>, .run = by<trim_heads_args>};
const OpRecord ops::trim_heads_backward{.name = "trim heads backward", .run = by<trim_heads_args>, .copies = {.results = 3, .operands = 1}};
const OpRecord ops::split_groups{.name = "split groups", .derive = derive::apart<&ops::split_groups_backward>, .run = by<split_groups_args>, .copies = {.results = 2}};
const OpRecord ops::split_groups_backward{.name = "split groups backward", .run = by<split_groups_args>, .copies = {.results = 3, .operands = 1}};

}  // namespace forge
