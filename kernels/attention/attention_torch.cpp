#include "kernels/attention/attention_torch.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>

#include "kernels/device/gemm_tensors.h"

namespace forge {
namespace {

constexpr int64_t kAlign = 16;             // bytes
constexpr int64_t kPadLse = 32;            // efficient's lse is padded to its block
constexpr int64_t kCausalFromTopLeft = 1;  // sdp::CustomMaskType
constexpr double kNoDropout = 0;

// A turn's part of the operands as tensors on the device.
struct Pack {
  const AttentionShape& shape;
  AttentionTurn turn;
  c10::Device device;

  at::TensorOptions options() const { return at::TensorOptions(device).dtype(scalar_of(shape.type)); }
  // [tokens, heads, head_dim] in the caller's memory
  at::Tensor view(const void* data, int64_t heads, int64_t stride) const {
    auto* from = static_cast<char*>(const_cast<void*>(data)) + turn.begin * stride * bytes_of(shape.type);
    return at::from_blob(from, {turn.tokens, heads, shape.head_dim}, {stride, shape.head_dim, 1}, options());
  }
  at::Tensor lse(const float* data) const {
    return at::from_blob(const_cast<float*>(data) + turn.begin, {shape.heads, turn.tokens}, {shape.tokens, 1},
                         options().dtype(at::kFloat));
  }
  at::Tensor cu_seqlens() const {
    at::Tensor cu = at::from_blob(const_cast<int32_t*>(shape.cu_seqlens) + turn.first, {turn.sequences + 1},
                                  options().dtype(at::kInt));
    return turn.begin == 0 ? cu : cu - turn.begin;
  }
  int64_t padded_longest() const { return (turn.longest + kPadLse - 1) / kPadLse * kPadLse; }
  int64_t lse_rows() const { return turn.sequences * padded_longest(); }
  // Returns the index of each token's lse in efficient's [sequences, padded_longest]. [tokens]
  at::Tensor lse_index(const at::Tensor& cu) const {
    at::Tensor token = at::arange(turn.tokens, options().dtype(at::kInt));
    at::Tensor sequence = at::searchsorted(cu.narrow(0, 1, turn.sequences), token, false, /*right=*/true);
    return sequence * padded_longest() + (token - cu.index_select(0, sequence));
  }
};

// Calls `compute` for each turn.
template <class F>
void for_turns(const AttentionShape& shape, c10::Device device, F compute) {
  if (shape.tokens == 0) return;
  const AttentionTurn whole{0, shape.sequences, 0, shape.tokens, shape.longest};
  for (const AttentionTurn& turn : shape.turns.empty() ? std::span(&whole, 1) : shape.turns)
    if (turn.tokens > 0) compute(Pack{shape, turn, device});
}

// Returns x in a layout that the kernels can read: x itself, a padded or a contiguous copy
// (attention_torch.h).
at::Tensor readable(const at::Tensor& x) {
  const int64_t bytes = x.element_size(), unit = kAlign / bytes, spare = (unit - x.size(2) % unit) % unit;
  if (spare > 0) return at::constant_pad_nd(x, {0, spare});
  const bool aligned =
      reinterpret_cast<uintptr_t>(x.const_data_ptr()) % kAlign == 0 && x.stride(0) * bytes % kAlign == 0;
  return aligned ? x : x.clone(at::MemoryFormat::Contiguous);
}

// Repeats key and value heads, once for each query head that reads them.
at::Tensor repeated(const at::Tensor& x, int64_t heads) {
  return x.size(1) == heads ? x : x.repeat_interleave(heads / x.size(1), 1);
}

// The gradient of `repeated`.
at::Tensor sum_of_repeated(const at::Tensor& x, int64_t kv_heads) {
  if (x.size(1) == kv_heads) return x;
  return x.view({x.size(0), kv_heads, x.size(1) / kv_heads, x.size(2)}).sum(2);
}

// Copies the result without its padding into the caller's memory.
void put(const at::Tensor& to, const at::Tensor& result) { to.copy_(result.narrow(2, 0, to.size(2))); }

// Operands or their gradients.
struct Qkv {
  at::Tensor q, k, v;
};

template <class Args>
Qkv inputs_of(const Args& a, const Pack& pack) {
  return {readable(pack.view(a.q, a.shape.heads, a.q_stride)),
          readable(pack.view(a.k, a.shape.kv_heads, a.k_stride)),
          readable(pack.view(a.v, a.shape.kv_heads, a.v_stride))};
}

void efficient_forward(const AttentionForward& a, const Pack& pack, const Qkv& in) {
  const AttentionShape& s = a.shape;
  at::Tensor cu = pack.cu_seqlens();
  at::Tensor k = repeated(in.k, s.heads).unsqueeze(0), v = repeated(in.v, s.heads).unsqueeze(0);
  auto [out, lse, seed, offset, longest_q, longest_k] = at::_efficient_attention_forward(
      in.q.unsqueeze(0), k, v, /*bias=*/{}, cu, cu, pack.turn.longest, pack.turn.longest, kNoDropout, kCausalFromTopLeft,
      /*compute_log_sumexp=*/a.lse != nullptr, s.scale);
  put(pack.view(a.out, s.heads, a.out_stride), out.squeeze(0));
  if (!a.lse) return;
  at::Tensor rows = lse.transpose(1, 2).reshape({pack.lse_rows(), s.heads});
  pack.lse(a.lse).copy_(rows.index_select(0, pack.lse_index(cu)).t());
}

Qkv efficient_backward(const AttentionBackward& a, const Pack& pack, const Qkv& in,
                       const at::Tensor& out, const at::Tensor& d_out) {
  const AttentionShape& s = a.shape;
  at::Tensor cu = pack.cu_seqlens(), seed = at::zeros({}, pack.options().dtype(at::kLong));
  // The kernel reads whole blocks: the lse of places without a query must be infinite, so that p is
  // zero there.
  at::Tensor lse = at::full({pack.lse_rows(), s.heads}, std::numeric_limits<float>::infinity(),
                            pack.options().dtype(at::kFloat));
  lse.index_copy_(0, pack.lse_index(cu), pack.lse(a.lse).t());
  lse = lse.view({pack.turn.sequences, pack.padded_longest(), s.heads}).transpose(1, 2).contiguous();
  at::Tensor k = repeated(in.k, s.heads).unsqueeze(0), v = repeated(in.v, s.heads).unsqueeze(0);
  // Parts of the keys are added up in no order.
  const std::optional<int64_t> key_parts = s.deterministic ? std::optional<int64_t>(1) : std::nullopt;
  // The backward supports no stride of out's tokens.
  auto [d_q, d_k, d_v, d_bias] = at::_efficient_attention_backward(
      d_out.unsqueeze(0), in.q.unsqueeze(0), k, v, /*bias=*/{}, out.contiguous().unsqueeze(0), cu, cu,
      pack.turn.longest, pack.turn.longest, lse, kNoDropout, seed, seed, kCausalFromTopLeft,
      /*bias_requires_grad=*/false, s.scale, key_parts);
  return {d_q.squeeze(0), sum_of_repeated(d_k.squeeze(0), s.kv_heads), sum_of_repeated(d_v.squeeze(0), s.kv_heads)};
}

}  // namespace

void attention_forward_torch(const AttentionForward& a, c10::Device device) {
  c10::NoGradGuard no_grad;
  for_turns(a.shape, device, [&](const Pack& pack) { efficient_forward(a, pack, inputs_of(a, pack)); });
}

void attention_backward_torch(const AttentionBackward& a, c10::Device device) {
  const AttentionShape& s = a.shape;
  c10::NoGradGuard no_grad;
  for_turns(s, device, [&](const Pack& pack) {
    const at::Tensor out = readable(pack.view(a.out, s.heads, a.out_stride)),
                     d_out = readable(pack.view(a.d_out, s.heads, a.d_out_stride));
    const Qkv grads = efficient_backward(a, pack, inputs_of(a, pack), out, d_out);
    put(pack.view(a.d_q, s.heads, a.d_q_stride), grads.q);
    put(pack.view(a.d_k, s.kv_heads, a.d_k_stride), grads.k);
    put(pack.view(a.d_v, s.kv_heads, a.d_v_stride), grads.v);
  });
}

}  // namespace forge
