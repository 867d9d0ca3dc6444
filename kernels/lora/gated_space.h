#pragma once
// Divides the work of gated.cuh, which decides the partial sums that it writes and reads again. No
// torch, no CUDA headers.
//
// Blocks are few and wide, at most one a multiprocessor: each leaves partial sums of all six
// results, and a second wave of a few blocks would cost as much as a whole one. The order of the
// sums is therefore the card's: the same card gives the same bits.
#include <string>
#include <utility>

#include "kernels/lora/folded_space.h"
#include "kernels/lora/gated_args.h"
#include "kernels/lora/gated_limits.h"

namespace forge {

// Division of GatedGradients: a block's columns and tokens, and the offsets of the partial sums.
struct GatedCut {
  int64_t ranks = 0;  // the most of the three adapters
  int64_t columns_each = 0, column_blocks = 0, tokens_each = 0, token_blocks = 0;
  int64_t d_a_at = 0, sums_at[2] = {}, d_b_at[2] = {};  // fp32 numbers in front of them
  int64_t numbers = 0;
};

inline GatedCut gated_cut(const GatedGradients& args) {
  GatedCut cut;
  cut.ranks = std::max({args.rank, args.side[0].rank, args.side[1].rank});
  cut.columns_each = kGatedColumns * (cut.ranks <= 16 ? kGatedWarps<16> : kGatedWarps<kMostGatedRanks>);
  cut.column_blocks = ceil_div(args.width, cut.columns_each);
  const int64_t tiles = std::max<int64_t>(ceil_div(std::max(args.planned, args.tokens), kGatedTokens), 1);
  const int64_t wanted = std::max<int64_t>(args.multiprocessors / std::max<int64_t>(cut.column_blocks, 1), 1);
  cut.tokens_each = ceil_div(tiles, std::min(wanted, tiles)) * kGatedTokens;
  cut.token_blocks = std::max<int64_t>(ceil_div(args.tokens, cut.tokens_each), 1);
  const auto take = [&](int64_t count) { return std::exchange(cut.numbers, cut.numbers + count); };
  cut.d_a_at = take(cut.token_blocks * args.rank * args.width);
  for (int i = 0; i < 2; ++i) {
    cut.sums_at[i] = take(cut.column_blocks * args.tokens * args.side[i].rank);
    cut.d_b_at[i] = take(cut.token_blocks * args.width * args.side[i].rank);
  }
  return cut;
}

inline ThinCut gated_cut(const GatedSums& args) {
  std::vector<ThinPart> parts;
  thin::add_chunks(parts, {.columns = args.width}, args.rank);
  return thin::cut_of(std::move(parts), args, false);
}

// Returns the reason why one launch cannot do it; empty if it can.
inline std::string gated_refusal(const GatedSums& args) {
  if (args.type == Element::f32) return "tensor cores take 16 bits";
  if (args.rank > kThinRanks) return "more ranks than a block takes";  // y would be made by several
  return gated_cut(args).fits ? "" : "more columns than one launch takes";
}
inline std::string gated_refusal(const GatedGradients& args) {
  if (args.type == Element::f32) return "tensor cores take 16 bits";
  const GatedCut cut = gated_cut(args);
  if (cut.ranks > kMostGatedRanks) return "more ranks than a block's registers hold";
  return cut.column_blocks + cut.token_blocks <= kFoldedCounters ? "" : "more columns than one launch takes";
}

}  // namespace forge
