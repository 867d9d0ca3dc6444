#pragma once
// The thin products of adapters that remain when their A and B are folded into the products of the
// frozen weights (core/model/graph/fold_adapters.h): products of many tokens and few ranks, limited
// by memory. Each reads its wide operand once.
//
//   S      = scale x Aᵀ                    AdapterSums, to two places where one of them is kept
//
//   d S_i  = scale_i · d y_i B_i           AdapterSumsGradient, both in one pass over d y
//   d B_i += d y_iᵀ S_i
//
// S includes its scale, so d B takes none. Everything is in `type` but the gradient of B, which is
// fp32; sums are in fp32, rounded once. The bits are the same in every order of the device's
// blocks, and on every GPU of as many multiprocessors. S and d S may follow x and d y, in columns
// of their rows that the members do not reach. Bytes: x or d y once, S written (and read); partial
// sums beside them (folded_space.h).
#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/lora/folded_limits.h"

namespace forge {

constexpr int64_t kMaxFoldedMembers = kMostMembers;
constexpr int64_t kFoldedCounters = 8192;  // the most that either of them needs
constexpr int64_t kFoldedCounterBytes = 4 * kFoldedCounters;

// A module of the product. One without an adapter has rank 0 and counts by its columns alone.
struct FoldedMember {
  int64_t out = 0, rank = 0;
  float scale = 1;
  float* d_b = nullptr;  // backward: [out, rank], added to
};

struct AdapterSums {
  Element type = Element::bf16;
  int64_t tokens = 0, planned = 0;  // the most tokens that the workspace is for; 0: these
  int64_t multiprocessors = 128;    // the GPU's; with `planned` they decide the partial sums
  int64_t width = 0, members = 0;
  FoldedMember member[kMaxFoldedMembers];  // their ranks and scales, in the order of A's rows
  const void* x = nullptr;  // [tokens, width]
  int64_t x_stride = 0;
  const void* a = nullptr;  // [Σ rank, width]
  int64_t a_stride = 0;
  void* s = nullptr;  // [tokens, Σ rank]
  int64_t s_stride = 0;
  void* kept = nullptr;  // a second copy of s; null: not wanted
  int64_t kept_stride = 0;
  uint32_t* counters = nullptr;  // [kFoldedCounters], zeros before and after
  void* workspace = nullptr;
};

struct AdapterSumsGradient {
  Element type = Element::bf16;
  int64_t tokens = 0, planned = 0, multiprocessors = 128, members = 0;
  FoldedMember member[kMaxFoldedMembers];
  const void* d_y = nullptr;  // [tokens, Σ out]
  int64_t d_y_stride = 0;
  const void* b = nullptr;  // [Σ out, Σ rank], of which member i has its own rows and columns
  int64_t b_stride = 0;
  const void* s = nullptr;  // [tokens, Σ rank]
  int64_t s_stride = 0;
  void* d_s = nullptr;  // [tokens, Σ rank]
  int64_t d_s_stride = 0;
  uint32_t* counters = nullptr;
  void* workspace = nullptr;
};

}  // namespace forge
