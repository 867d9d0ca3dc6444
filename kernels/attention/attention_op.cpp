#include "kernels/attention/attention_op.h"

#include <algorithm>

#include "core/graph/gradients.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/attention/attention_tiles.h"
#include "kernels/call/run.h"

namespace forge {

PositionBias position_bias(Recorder& g, const std::string& module, int64_t buckets, int64_t heads, int64_t distance) {
  return {g.module_at(module, ModuleKind::embedding, heads, buckets), distance};
}

ValueId attention(Recorder& g, ValueId q, ValueId k, ValueId v, const Heads& heads, const AttentionOptions& options) {
  ValueId mixed = g.like("mixed", q, heads.heads * heads.head_dim);
  ValueId lse = g.like("lse", q, heads.heads, ValueType::fp32);
  std::vector<int32_t> modules;
  if (*options.sinks) modules.push_back(g.module_at(options.sinks, ModuleKind::vector, 0, heads.heads));
  if (options.bias.module >= 0) modules.push_back(options.bias.module);
  Attributes& a = g.push(&ops::attention, {q, k, v}, {mixed, lse}, modules).attributes;
  a.heads = heads.heads, a.kv_heads = heads.kv_heads, a.head_dim = heads.head_dim;
  a.scale = options.scale, a.softcap = options.softcap, a.window = options.window, a.chunk = options.chunk;
  a.sight = options.sight, a.position_distance = options.bias.distance;
  a.alibi = options.alibi;
  return mixed;
}

namespace {

// Counts scores and mixed values of what is visible (half of a causal text), less what a window
// hides. The backward makes the scores again and three gradients.
double attention_flops(const Graph&, const Op& op, double rows, double mean_length) {
  const Attributes& a = op.attributes;
  if (a.chunk > 0) mean_length = std::min(mean_length, static_cast<double>(a.chunk));
  const double window = a.window > 0 ? static_cast<double>(a.window) : mean_length, hidden = mean_length - window;
  const double seen = a.sight == Sight::causal ? mean_length / 2 - (hidden > 0 ? hidden * hidden / (2 * mean_length) : 0) : mean_length;
  const double pairs = rows * seen * static_cast<double>(a.heads * a.head_dim);
  return pairs * (op.kind == &ops::attention ? 4 : 10);
}

void derive_attention(Gradients& g, const Op& forward) {
  Op op = g.like(&ops::attention_backward, forward);
  op.modules = forward.modules;
  for (ValueId in : forward.in) op.in.push_back(g.need(in));
  op.in.insert(op.in.end(), {g.need(forward.out[0]), g.need(forward.out[1]), g.gradient(forward.out[0])});
  // Keys and values that later layers attended to have a gradient of theirs, which is added.
  std::vector<std::pair<ValueId, ValueId>> earlier;
  for (ValueId in : forward.in) {
    if (const ValueId so_far = g.gradient(in); so_far != kNoValue) earlier.emplace_back(in, so_far), g.mirror_anew(in);
    op.out.push_back(g.new_gradient(in));
  }
  g.push(std::move(op));
  for (const auto& [in, so_far] : earlier) g.pass_on(in, so_far);
}

const void* sinks(const Call& c) {
  if (c.op.modules.empty()) return nullptr;
  FORGE_CHECK(c.module().held == c.type(), "sinks in another type than they are computed in");
  return c.module().weight;
}

// Returns the arguments that forward and backward of attention share.
template <class Args>
Args attention_args(const Call& c, ValueId out, ValueId lse) {
  const Attributes& a = c.op.attributes;
  Args args{.shape = {.type = c.type(),
                      .sequences = c.batch.sequences,
                      .cu_seqlens = c.batch.cu_seqlens,
                      .heads = a.heads,
                      .kv_heads = a.kv_heads,
                      .head_dim = a.head_dim,
                      .scale = static_cast<float>(a.scale),
                      .tokens = c.tokens(),
                      .longest = c.batch.longest,
                      .window = a.window,
                      .softcap = static_cast<float>(a.softcap),
                      .deterministic = c.m.capacity.deterministic,
                      .multiprocessors = c.m.capacity.multiprocessors,
                      .turns = c.batch.turns}};
  if (a.chunk > 0) {  // a chunk is a text of its own
    args.shape.sequences = c.batch.chunks, args.shape.cu_seqlens = c.batch.chunk_cu_seqlens;
    args.shape.longest = std::min(args.shape.longest, a.chunk);
    args.shape.turns = c.batch.chunk_turns;
  }
  c.place(c.in(0), args.q, args.q_stride);
  c.place(c.in(1), args.k, args.k_stride);
  c.place(c.in(2), args.v, args.v_stride);
  c.place(out, args.out, args.out_stride);
  args.lse = c.m.numbers(lse);
  args.shape.sinks = sinks(c);
  args.workspace = c.workspace;
  return args;
}

AttentionForward attention(const Call& c) { return attention_args<AttentionForward>(c, c.out(0), c.out(1)); }

AttentionBackward attention_backward_args(const Call& c) {
  auto args = attention_args<AttentionBackward>(c, c.in(3), c.in(4));
  c.place(c.in(5), args.d_out, args.d_out_stride);
  c.place(c.out(0), args.d_q, args.d_q_stride);
  c.place(c.out(1), args.d_k, args.d_k_stride);
  c.place(c.out(2), args.d_v, args.d_v_stride);
  if (!c.op.modules.empty()) args.d_sinks = c.module().d_weight;
  return args;
}

void store_in_cache(const OpRun& r) {
  const CachePlaces& places = *r.batch.cache;
  if (places.layers[r.op.layer].shared) return;
  CacheStore args{places.shape_of(r.op.layer), r.tokens(), places.sequences.data(), places.positions.data()};
  r.place(r.in(1), args.k, args.k_stride);
  r.place(r.in(2), args.v, args.v_stride);
  args.keys = places.keys(r.op.layer), args.values = places.values(r.op.layer);
  r.device.run(args);
}

void cached_attention(const OpRun& r) {
  const CachePlaces& places = *r.batch.cache;
  const Attributes& a = r.op.attributes;
  CachedAttention args{places.shape_of(r.op.layer), static_cast<int64_t>(places.lengths.size()), a.heads, a.window, a.chunk};
  args.scale = static_cast<float>(a.scale), args.softcap = static_cast<float>(a.softcap);
  args.sinks = sinks(r);
  args.lengths = places.lengths.data();
  r.place(r.in(0), args.q, args.q_stride);
  args.keys = places.keys(r.op.layer), args.values = places.values(r.op.layer);
  r.place(r.out(0), args.out, args.out_stride);
  args.workspace = r.workspace;  // the one for attention over blocks is larger
  r.device.run(args);
}

void run_attention(const OpRun& r) {
  if (r.batch.cache) {
    store_in_cache(r);
    if (!r.batch.cache->begins) return cached_attention(r);
  }
  r.device.run(attention(r));
}

int64_t forward_workspace(const Call& c) {
  return c.m.capacity.gpu ? 0 : attention_tiles_workspace(attention(c).shape, c.m.capacity.threads);
}

int64_t backward_workspace(const Call& c) {
  const AttentionBackward args = attention_backward_args(c);
  return c.m.capacity.gpu ? attention_backward_cuda_workspace(args) : attention_tiles_workspace(args.shape, c.m.capacity.threads);
}

}  // namespace

const OpRecord ops::attention{.name = "attention",
                              .flops = attention_flops,
                              .derive = derive_attention,
                              .run = run_attention,
                              .workspace = forward_workspace};
const OpRecord ops::attention_backward{.name = "attention backward",
                                       .flops = attention_flops,
                                       .run = by<attention_backward_args>,
                                       .workspace = backward_workspace};

}  // namespace forge
