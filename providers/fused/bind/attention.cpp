#include "providers/fused/bind.h"

namespace forge::bind {

const void* sinks(const Call& c) {
  if (c.op.modules.empty()) return nullptr;
  FORGE_CHECK(c.module().held == c.type(), "sinks in another type than they are computed in");
  return c.module().weight;
}

namespace {

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
                      .multiprocessors = c.m.capacity.multiprocessors}};
  args.q = c.m.data(c.in(0)), args.q_stride = c.m.stride(c.in(0));
  args.k = c.m.data(c.in(1)), args.k_stride = c.m.stride(c.in(1));
  args.v = c.m.data(c.in(2)), args.v_stride = c.m.stride(c.in(2));
  args.out = c.m.data(out), args.out_stride = c.m.stride(out);
  args.lse = c.m.numbers(lse);
  args.shape.sinks = sinks(c);
  args.workspace = c.workspace;
  return args;
}

}  // namespace

AttentionForward attention(const Call& c) { return attention_args<AttentionForward>(c, c.out(0), c.out(1)); }

AttentionBackward attention_backward(const Call& c) {
  auto args = attention_args<AttentionBackward>(c, c.in(3), c.in(4));
  args.d_out = c.m.data(c.in(5)), args.d_out_stride = c.m.stride(c.in(5));
  args.d_q = c.m.data(c.out(0)), args.d_q_stride = c.m.stride(c.out(0));
  args.d_k = c.m.data(c.out(1)), args.d_k_stride = c.m.stride(c.out(1));
  args.d_v = c.m.data(c.out(2)), args.d_v_stride = c.m.stride(c.out(2));
  if (!c.op.modules.empty()) args.d_sinks = c.module().d_weight;
  return args;
}

}  // namespace forge::bind
