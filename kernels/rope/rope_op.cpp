#include "kernels/rope/rope_op.h"

#include "core/graph/gradients.h"
#include "kernels/call/run.h"
#include "kernels/rope/rope_args.h"

namespace forge {

std::array<ValueId, 2> rope(Recorder& g, ValueId q, ValueId k, const Heads& heads, const RopeOptions& options) {
  const Value from_q = g.graph.value(q), from_k = g.graph.value(k);
  ValueId q_turned = g.graph.add_value(g.name("q_turned"), from_q.buffer, from_q.column, from_q.width);
  ValueId k_turned = g.graph.add_value(g.name("k_turned"), from_k.buffer, from_k.column, from_k.width);
  Attributes& a = g.push(&ops::rope, {q, k}, {q_turned, k_turned}).attributes;
  a.heads = heads.heads, a.kv_heads = heads.kv_heads, a.head_dim = heads.head_dim;
  a.interleaved = options.interleaved, a.window_angles = options.window_angles;
  a.grown_queries = options.grown_queries;
  return {q_turned, k_turned};
}

ValueId rope(Recorder& g, ValueId q, const Heads& heads, const RopeOptions& options) {
  ValueId turned = g.over(g.name("q_turned"), q);
  Attributes& a = g.push(&ops::rope, {q}, {turned}).attributes;
  a.heads = heads.heads, a.kv_heads = heads.kv_heads, a.head_dim = heads.head_dim;
  a.interleaved = options.interleaved, a.window_angles = options.window_angles;
  a.grown_queries = options.grown_queries;
  return turned;
}

// The tables of queries that grow without a turn have sines of zero.
ValueId grow_queries(Recorder& g, ValueId q, const Heads& heads) {
  ValueId grown = g.over(g.name("q_grown"), q);
  Attributes& a = g.push(&ops::rope, {q}, {grown}).attributes;
  a.heads = heads.heads, a.kv_heads = heads.kv_heads, a.head_dim = heads.head_dim;
  a.grown_queries = true;
  return grown;
}

namespace {

void derive_rope(Gradients& g, const Op& forward) {
  Op op = g.like(&ops::rope_backward, forward);
  for (size_t i = 0; i < forward.in.size(); ++i) {
    const ValueId turned = g.gradient(forward.out[i]);
    op.in.push_back(turned);
    op.out.push_back(g.set_gradient(forward.in[i], g.renewed(forward.in[i], turned)));
  }
  g.push(std::move(op));
}

// Returns one rotation of q and k if they are consecutive in one row and turn alike, otherwise one
// of each.
std::vector<Rope> rotations(const Call& c) {
  const Attributes& a = c.op.attributes;
  Rope args{.type = c.type(),
            .layout = a.interleaved ? RopeLayout::interleaved : RopeLayout::half_split,
            .backward = c.op.kind == &ops::rope_backward,
            .tokens = c.tokens(),
            .head_dim = a.head_dim,
            .rotary_dim = a.window_angles ? c.batch.window_rotary_dim : c.batch.rotary_dim,
            .cosine = a.window_angles ? c.batch.window_cosine : c.batch.cosine,
            .sine = a.window_angles ? c.batch.window_sine : c.batch.sine};
  const auto turn = [&](ValueId x, int64_t heads, int64_t kv_heads) {
    args.heads = heads, args.kv_heads = kv_heads;
    args.qkv = c.m.data(x), args.stride = c.m.stride(x);
    return args;
  };
  const bool keys = c.op.out.size() > 1;
  if (a.grown_queries) {
    std::vector<Rope> all;
    if (keys) all.push_back(turn(c.out(1), a.kv_heads, 0));
    args.cosine = c.batch.grown_cosine, args.sine = c.batch.grown_sine, args.rotary_dim = c.batch.grown_dim;
    all.push_back(turn(c.out(0), a.heads, 0));
    return all;
  }
  if (!keys) return {turn(c.out(0), a.heads, 0)};
  const Value &q = c.m.graph.value(c.out(0)), &k = c.m.graph.value(c.out(1));
  if (q.buffer == k.buffer && q.column + q.width == k.column) return {turn(c.out(0), a.heads, a.kv_heads)};
  return {turn(c.out(0), a.heads, 0), turn(c.out(1), a.kv_heads, 0)};
}

void run_rope(const OpRun& r) {
  for (const Rope& turn : rotations(r)) r.device.run(turn);
}

}  // namespace

const OpRecord ops::rope{.name = "rope",
                         .flops = flops::elementwise,
                         .derive = derive_rope,
                         .run = run_rope,
                         .copies = {.results = 2,
                         .operands = 2}};
const OpRecord ops::rope_backward{.name = "rope backward", .flops = flops::elementwise, .run = run_rope, .copies = {.results = 3, .operands = 3}};

}  // namespace forge
