#include "kernels/attention/attention_flash.h"

#include <cmath>
#include <initializer_list>
#include <stdexcept>
#include <type_traits>

#include "kernels/attention/flash_params.h"
#include "kernels/attention/group_sums.h"

namespace forge {
namespace {

using pytorch_flash::Flash_bwd_params;
using pytorch_flash::Flash_fwd_params;

bool at_sixteen_bytes(std::initializer_list<const void*> rows, std::initializer_list<int64_t> strides) {
  for (const void* row : rows)
    if (reinterpret_cast<uintptr_t>(row) % 16 != 0) return false;
  for (const int64_t stride : strides)
    if (stride % 8 != 0) return false;
  return true;
}

template <class Args>
void set_forward(Flash_fwd_params& p, const Args& a, float* lse) {
  const AttentionShape& s = a.shape;
  const auto head_dim = static_cast<int32_t>(s.head_dim), longest = static_cast<int32_t>(s.longest);
  p.q = a.q, p.q_row_stride = a.q_stride, p.q_head_stride = head_dim;
  p.k = a.k, p.k_row_stride = a.k_stride, p.k_head_stride = head_dim;
  p.v = a.v, p.v_row_stride = a.v_stride, p.v_head_stride = head_dim;
  p.heads = static_cast<int32_t>(s.heads), p.kv_heads = static_cast<int32_t>(s.kv_heads), p.group = p.heads / p.kv_heads;
  p.out = const_cast<void*>(static_cast<const void*>(a.out)), p.out_row_stride = a.out_stride, p.out_head_stride = head_dim;
  p.lse = lse, p.lse_is_packed = true;
  p.sequences = static_cast<int32_t>(s.sequences), p.tokens = static_cast<int32_t>(s.tokens);
  p.longest_q = p.longest_k = longest;
  p.longest_q_rounded = p.longest_k_rounded = (longest + 127) / 128 * 128;
  p.head_dim = head_dim, p.head_dim_rounded = static_cast<int32_t>(flash_head_dim(head_dim));
  p.scale = s.scale, p.scale_log2 = static_cast<float>(s.scale * M_LOG2E);
  p.cu_seqlens_q = p.cu_seqlens_k = s.cu_seqlens, p.keys_are_cumulative = true;
  p.is_bf16 = s.type == Element::bf16;
  p.is_causal = true, p.window_left = longest, p.window_right = 0;
  p.keep = p.inverse_keep = 1, p.keep_255 = 255, p.scale_by_inverse_keep = s.scale;  // no dropout
}

template <int N>
using HeadDim = std::integral_constant<int, N>;

// Calls action(std::type_identity of the element type, HeadDim of the kernel that takes the heads).
template <class Action>
void dispatch(const AttentionShape& s, Action action) {
  const auto sized = [&](auto type) {
    if (s.head_dim <= 32) return action(type, HeadDim<32>{});
    if (s.head_dim <= 64) return action(type, HeadDim<64>{});
    if (s.head_dim <= 96) return action(type, HeadDim<96>{});
    if (s.head_dim <= 128) return action(type, HeadDim<128>{});
    if (s.head_dim <= 192) return action(type, HeadDim<192>{});
    if (s.head_dim <= 256) return action(type, HeadDim<256>{});
    throw std::runtime_error("flash attention has heads of at most 256");
  };
  if (s.type == Element::bf16)
    sized(std::type_identity<cutlass::bfloat16_t>{});
  else
    sized(std::type_identity<cutlass::half_t>{});
}

}  // namespace

bool flash_takes(const AttentionForward& a) {
  return at_sixteen_bytes({a.q, a.k, a.v, a.out}, {a.q_stride, a.k_stride, a.v_stride, a.out_stride, a.shape.head_dim});
}
bool flash_takes(const AttentionBackward& a) {
  return at_sixteen_bytes({a.q, a.k, a.v, a.out, a.d_out, a.d_q, a.d_k, a.d_v},
                          {a.q_stride, a.k_stride, a.v_stride, a.out_stride, a.d_out_stride, a.d_q_stride, a.d_k_stride, a.d_v_stride,
                           a.shape.head_dim});
}

void attention_forward_flash(const AttentionForward& a, CudaStream stream) {
  if (a.shape.tokens == 0) return;
  Flash_fwd_params p{};
  set_forward(p, a, a.lse ? a.lse : static_cast<float*>(a.workspace));
  p.page_tokens = 1;
  dispatch(a.shape, [&](auto type, auto head_dim) {
    pytorch_flash::run_mha_fwd_<typename decltype(type)::type, decltype(head_dim)::value, true>(p, stream);
  });
}

void attention_backward_flash(const AttentionBackward& a, CudaStream stream) {
  const AttentionShape& s = a.shape;
  if (s.tokens == 0) return;
  const FlashSpace space = flash_space(s);
  char* scratch = static_cast<char*>(a.workspace);
  const bool grouped = s.heads != s.kv_heads;
  Flash_bwd_params p{};
  set_forward(p, a, const_cast<float*>(a.lse));
  p.d_out = a.d_out, p.d_out_row_stride = a.d_out_stride, p.d_out_head_stride = s.head_dim;
  p.d_q = a.d_q, p.d_q_row_stride = a.d_q_stride;
  p.d_k = grouped ? scratch + space.d_k : a.d_k, p.d_k_row_stride = grouped ? s.heads * s.head_dim : a.d_k_stride;
  p.d_v = grouped ? scratch + space.d_v : a.d_v, p.d_v_row_stride = grouped ? s.heads * s.head_dim : a.d_v_stride;
  p.d_q_head_stride = p.d_k_head_stride = p.d_v_head_stride = s.head_dim;
  p.d_q_sums = reinterpret_cast<float*>(scratch + space.d_q_sums);
  p.dots = reinterpret_cast<float*>(scratch + space.dots);
  p.deterministic = s.deterministic;
  for (int64_t first = 0; first < s.sequences; first += space.turn) {
    p.sequences = static_cast<int32_t>(std::min(space.turn, s.sequences - first));
    p.cu_seqlens_q = p.cu_seqlens_k = s.cu_seqlens + first;
    if (s.deterministic) {  // otherwise the first kernel clears them
      const FlashSums sums = flash_sums(s, p.sequences);
      p.d_q_sums_stride = sums.stride;
      clear_sums_cuda({p.d_q_sums, sums.bytes()}, stream);
    }
    dispatch(s, [&](auto type, auto head_dim) {
      pytorch_flash::run_mha_bwd_<typename decltype(type)::type, decltype(head_dim)::value, true>(p, stream);
    });
  }
  if (!grouped) return;
  group_sums_cuda({.type = s.type,
                   .tokens = s.tokens,
                   .kv_heads = s.kv_heads,
                   .group = s.heads / s.kv_heads,
                   .head_dim = s.head_dim,
                   .x = {p.d_k, p.d_v},
                   .y = {a.d_k, a.d_v},
                   .y_stride = {a.d_k_stride, a.d_v_stride}},
                  stream);
}

}  // namespace forge
