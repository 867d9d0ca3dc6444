#pragma once
// LibTorch's launchers of FlashAttention 2, which libtorch_cuda exports, and their argument
// structs, which no header of its wheel has.
//
// The structs are those of FlashAttention 2.7 (csrc/flash_attn/src/flash.h) as LibTorch 2.11
// compiles them: with leftpad_k and total_q, and 32 bytes for the state of a random generator. Only
// names and sizes of structs and launchers are theirs; members that packed causal attention without
// dropout never sets are gaps here. flash_launches_test compares the arguments that LibTorch's own
// entry points hand to the kernels with those of attention_flash.cpp, byte by byte.
//
// Strides are in elements. Batch strides are not read for packed sequences.
#include <cstddef>
#include <cstdint>

#include "kernels/device/launch.h"

namespace cutlass {
struct half_t;
struct bfloat16_t;
}  // namespace cutlass

namespace pytorch_flash {

struct Flash_fwd_params {
  const void *q, *k, *v;
  int64_t batch_strides[3];
  int64_t q_row_stride, k_row_stride, v_row_stride;
  int64_t q_head_stride, k_head_stride, v_head_stride;
  int32_t heads, kv_heads, group;  // group: heads / kv_heads
  void* out;
  void* out_parts;  // of keys that are split
  int64_t out_batch_stride, out_row_stride, out_head_stride;
  void* probabilities;
  float* lse;  // [heads, tokens]: see lse_is_packed
  void* lse_parts;
  int32_t sequences, longest_q, longest_k, new_keys, head_dim;
  int32_t longest_q_rounded, longest_k_rounded, head_dim_rounded;  // to 128 tokens; as the kernels' tiles are
  int32_t rotary_dim, tokens;
  float scale, scale_log2;  // log2: times log2(e)
  const int32_t *cu_seqlens_q, *cu_seqlens_k;
  const int32_t *left_padding, *used_keys;
  void* block_mask;
  void* new_rows[2];
  int64_t new_strides[6];
  void* rotary[2];
  const int32_t *cache_rows, *pages;
  int64_t pages_stride;
  int32_t page_tokens;
  float keep;  // the probability that dropout keeps a weight, and below in 255ths and its inverse
  uint8_t keep_255;
  float inverse_keep, scale_by_inverse_keep;
  int32_t window_left, window_right;
  float softcap;
  uint64_t random_state[4];
  void* random_out;
  bool is_bf16, is_causal, keys_are_cumulative, rotary_interleaved;
  int32_t splits;
  void* slopes;
  int64_t slopes_stride;
  bool lse_is_packed;  // [heads, tokens]; else [sequences, heads, longest]
  bool groups_swapped;
};

struct Flash_bwd_params : Flash_fwd_params {
  const void* d_out;
  void *d_q, *d_k, *d_v;  // d_k, d_v: of every query head
  float* d_q_sums;        // [splits, tokens + 128 · sequences, heads, head_dim_rounded]: sequence s begins at its cu_seqlens + 128 s
  void* d_kv_sums[2];
  int64_t d_out_batch_stride, d_out_row_stride, d_out_head_stride;
  int64_t d_batch_strides[3];
  int64_t d_q_row_stride, d_k_row_stride, d_v_row_stride;
  int64_t d_q_head_stride, d_k_head_stride, d_v_head_stride;
  float* dots;  // d out · out, [heads, tokens + 128 · sequences], sequences as in d_q_sums
  bool deterministic;        // in splits (attention_flash.h), which the caller clears
  int64_t d_q_sums_stride;   // from split to split
};

static_assert(sizeof(Flash_fwd_params) == 472 && sizeof(Flash_bwd_params) == 648);
static_assert(offsetof(Flash_fwd_params, out) == 112 && offsetof(Flash_fwd_params, keep) == 372);

// T: cutlass::half_t or bfloat16_t. kHeadDim: 32, 64, 96, 128, 192 or 256. They launch on the
// current device.
template <class T, int kHeadDim, bool kCausal>
void run_mha_fwd_(Flash_fwd_params& params, CUstream_st* stream);
template <class T, int kHeadDim, bool kCausal>
void run_mha_bwd_(Flash_bwd_params& params, CUstream_st* stream);

}  // namespace pytorch_flash
