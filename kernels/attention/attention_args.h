#pragma once
// Causal attention over packed sequences on plain memory, forward and backward.
//
//   s_ij   = scale · q_i·k_j, with a cap c (Gemma 2): c tanh(scale · q_i·k_j / c)
//   p_ij   = exp(s_ij − lse_i)      j ≤ i in i's own sequence; with a window w (Mistral): i − w < j ≤ i
//   out_i  = Σ_j p_ij v_j
//
// A sink z (gpt-oss), one a head, takes its share of the softmax and adds nothing: lse_i is that of
// the scores and z.
//
//   d v_j  = Σ_i p_ij d out_i
//   d s_ij = p_ij (d out_i · v_j − d out_i · out_i), with a cap times 1 − (s_ij / c)²
//   d q_i  = scale Σ_j d s_ij k_j
//   d k_j  = scale Σ_i d s_ij q_i
//   d z   += −Σ_i exp(z − lse_i) d out_i · out_i
//
// Query head h reads key head h · kv_heads / heads; heads is a multiple of kv_heads. q, out, d_q:
// [tokens, heads, head_dim]; k, v, d_k, d_v: [tokens, kv_heads, head_dim]; a stride is elements
// from token to token, so q, k and v may be the parts of one fused row. Arithmetic in fp32 (scores
// never leave the cache), results rounded once. Operations: 4 · head_dim a visible pair and head
// forward, 10 backward (14 for sequences over 128 tokens); blocks of keys that a window hides from
// all of a block's queries are not visited.
#include <cstdint>
#include <span>

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"

namespace forge {

// Consecutive sequences of a micro-batch that a GPU's kernels may be given at once.
struct AttentionTurn {
  int64_t first = 0, sequences = 0;
  int64_t begin = 0, tokens = 0, longest = 0;  // the first token, all, and those of the longest sequence

  bool operator==(const AttentionTurn&) const = default;
};

struct AttentionShape {
  Element type = Element::f32;
  int64_t sequences = 0;
  const int32_t* cu_seqlens = nullptr;  // [sequences + 1], from 0 to the number of tokens
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 1;
  // All tokens, and those of the longest sequence; for a GPU, whose memory holds cu_seqlens.
  int64_t tokens = 0, longest = 0;
  int64_t window = 0;  // tokens that a query looks back on, itself included; 0: all
  float softcap = 0;   // 0: none
  const void* sinks = nullptr;  // [heads] of `type`, or null
  // Flash attention's d q on a GPU of that many multiprocessors: the same each time, bit for bit.
  bool deterministic = false;
  int64_t multiprocessors = 128;
  std::span<const AttentionTurn> turns;  // on the host, for a GPU; empty: the micro-batch is one
};

struct AttentionForward {
  AttentionShape shape;
  const void* q = nullptr;
  int64_t q_stride = 0;
  const void* k = nullptr;
  int64_t k_stride = 0;
  const void* v = nullptr;
  int64_t v_stride = 0;
  void* out = nullptr;
  int64_t out_stride = 0;
  float* lse = nullptr;  // [heads, tokens] for the backward, as flash attention has it; or null
  void* workspace = nullptr;
};

struct AttentionBackward {
  AttentionShape shape;
  const void* q = nullptr;
  int64_t q_stride = 0;
  const void* k = nullptr;
  int64_t k_stride = 0;
  const void* v = nullptr;
  int64_t v_stride = 0;
  const void* out = nullptr;
  int64_t out_stride = 0;
  const float* lse = nullptr;  // [heads, tokens]
  const void* d_out = nullptr;
  int64_t d_out_stride = 0;
  void* d_q = nullptr;  // none of the three may be an input
  int64_t d_q_stride = 0;
  void* d_k = nullptr;
  int64_t d_k_stride = 0;
  void* d_v = nullptr;
  int64_t d_v_stride = 0;
  void* workspace = nullptr;
  float* d_sinks = nullptr;  // [heads], added to; or null
};

int64_t attention_forward_cpu_workspace(const AttentionForward& args);
void attention_forward_cpu(const AttentionForward& args, CpuLevel level = cpu_level());
int64_t attention_backward_cpu_workspace(const AttentionBackward& args);
void attention_backward_cpu(const AttentionBackward& args, CpuLevel level = cpu_level());

}  // namespace forge
