#pragma once
// The limits of gated.cuh, shared with the plan. No torch, no CUDA headers, no standard library.

namespace forge {

constexpr int kGatedTokens = 16, kGatedColumns = 32;  // of a warp's tile
// Three gradients of that many ranks are in a warp's registers.
constexpr int kMostGatedRanks = 32;

// Warps of a block, side by side along the columns: with sixteen a thread has 128 registers, too
// few on sm_100 and later.
template <int kRanks>
constexpr int kGatedWarps = kRanks <= 16 ? 12 : 8;

}  // namespace forge
