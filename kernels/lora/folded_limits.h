#pragma once
// The limits of folded.cuh, shared with the plan. No torch, no CUDA headers, no standard library.

namespace forge {

constexpr int kThinTokens = 64, kThinColumns = 128;  // of a tile
constexpr int kThinRanks = 64;                       // the most of one block
constexpr int kMaxThinParts = 16, kMostMembers = 8;
constexpr int kForwardTiles = 8;

// Tiles of columns whose d B a block's registers hold.
template <int kRanks>
constexpr int kMostTiles = kRanks <= 16 ? 4 : 1;

}  // namespace forge
