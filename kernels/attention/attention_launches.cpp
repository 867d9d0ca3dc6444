#include "kernels/attention/attention_cuda.h"

namespace forge {
namespace {

double heads_bytes(const AttentionShape& s) { return matrix_bytes(s.type, s.tokens, s.heads * s.head_dim); }
double kv_bytes(const AttentionShape& s) { return matrix_bytes(s.type, s.tokens, s.kv_heads * s.head_dim); }
double lse_bytes(const AttentionShape& s) { return matrix_bytes(Element::f32, s.tokens, s.heads); }

// Bytes of q, k, v, out and lse.
double forward_bytes(const AttentionShape& s) { return 2 * heads_bytes(s) + 2 * kv_bytes(s) + lse_bytes(s); }
// Bytes of these, d out, d q, d k and d v.
double backward_bytes(const AttentionShape& s) { return 4 * heads_bytes(s) + 4 * kv_bytes(s) + lse_bytes(s); }

bool grouped(const AttentionShape& s) { return s.heads != s.kv_heads; }

// True if flash attention computes micro-batches of so many tokens on that GPU. A listing's 16 bits
// are those that the GPU computes in.
bool is_flash(const AttentionShape& s, int64_t capability) {
  const Element narrow = capability < 80 ? Element::f16 : Element::bf16;
  const AttentionProblem problem{.capability = capability,
                                 .type = bytes_of(s.type) == 2 ? narrow : Element::f32,
                                 .head_dim = s.head_dim,
                                 .heads = s.heads,
                                 .sequences = 1,
                                 .tokens = s.tokens};
  return choose_attention(problem, /*backward=*/true).kernel == AttentionKernel::flash;
}

// Launches of LibTorch around its efficient kernels (attention_torch.cpp), as the hollow GPU counts
// them: kLseIndex to find each token's lse (arange, searchsorted, a gather and three sums and
// products), kRepeats for keys and values of each query head.
constexpr int64_t kLseIndex = 6, kRepeats = 2;

// Lists the launches of flash attention's backward, if a micro-batch's sequences are one turn
// (attention_flash.h). Sums of d q are cleared, added to, and read; in a deterministic backward
// these are the sums of every split, as if the batch were one sequence.
GpuLaunches flash_backward(const AttentionShape& s) {
  const double heads = heads_bytes(s), kv = kv_bytes(s), lse = lse_bytes(s), dots = lse;
  const auto splits = static_cast<double>(flash_sums(s, 1).splits);
  const double sums = matrix_bytes(Element::f32, s.tokens, s.heads * flash_head_dim(s.head_dim));
  GpuLaunches list;
  if (s.deterministic) list.push_back({"clear", splits * sums});
  list.push_back({"flash_dots", 2 * heads + dots + (s.deterministic ? 0 : sums)});
  list.push_back({"flash_gradients", 2 * heads + 2 * kv + lse + dots + 2 * sums + (grouped(s) ? 2 * heads : 2 * kv)});
  list.push_back({"flash_d_q", splits * sums + heads});
  if (grouped(s)) list.push_back({"group_sums", 2 * heads + 2 * kv});
  return list;
}

// Lists d out · out, the gradients, d q from its fp32 sums, keys' and values' gradients summed over
// groups, and three copies (attention_torch.cpp).
GpuLaunches efficient_backward(const AttentionBackward& a) {
  const AttentionShape& s = a.shape;
  const double heads = heads_bytes(s);
  // The fp32 sums of d q; out and d out once more.
  double copies = 2 * heads + 4 * kv_bytes(s) + 2 * matrix_bytes(Element::f32, s.tokens, s.heads * s.head_dim) + 2 * heads;
  if (grouped(s)) copies += 4 * heads;
  // The launches are the kernel and its seed; lse, filled, put in its places and transposed; three
  // copies. In fp32 d out · out is computed before: a product, a sum, a copy. A result whose rows
  // have gaps between them is copied.
  const bool spaced = a.out_stride != s.heads * s.head_dim;
  return {{"attention backward", backward_bytes(s) + copies, 0,
           2 + kLseIndex + 3 + 3 + (s.type == Element::f32 ? 3 : 0) + spaced + (grouped(s) ? 2 * kRepeats : 0)}};
}

}  // namespace

GpuLaunches launches(const AttentionForward& a, int64_t capability) {
  const AttentionShape& s = a.shape;
  if (may_be_own(s)) return {{"attention", forward_bytes(s)}};
  if (is_flash(s, capability)) return {{"flash_forward", forward_bytes(s)}};
  // The launches are the kernel, a copy of its result, and lse: its rows made one array, gathered
  // and copied.
  return {{"attention", forward_bytes(s) + 2 * heads_bytes(s) + 2 * lse_bytes(s), 0,
           1 + 1 + kLseIndex + 3 + (grouped(s) ? kRepeats : 0)}};
}

GpuLaunches launches(const AttentionBackward& a, int64_t capability) {
  const AttentionShape& s = a.shape;
  if (!may_be_own(s)) return is_flash(s, capability) ? flash_backward(s) : efficient_backward(a);
  GpuLaunches list{{"attention_d_q", backward_bytes(s)}, {"attention_d_kv", backward_bytes(s)}};
  if (a.d_sinks) list.push_back({"attention_d_sinks", 2 * lse_bytes(s)});
  return list;
}

}  // namespace forge
