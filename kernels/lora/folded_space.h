#pragma once
// Divides the work of folded.cuh, which decides the partial sums that it writes and reads again. No
// torch, no CUDA headers.
//
// A block takes a stretch of columns and a stretch of tokens. Its result for its tokens is a part
// of their S (the other columns' blocks have the rest), and that for its columns a part of their d
// B (the other tokens' blocks have the rest).
#include <algorithm>
#include <string>
#include <vector>

#include "core/lib/base/ceil_div.h"
#include "kernels/lora/folded_args.h"
#include "kernels/lora/folded_limits.h"

namespace forge {

constexpr int64_t kThinBlocksEach = 2;  // blocks that a multiprocessor runs at once

// Ranks that are multiplied together: in the backward a chunk of a member's, in the forward a chunk
// of all members', which share x.
struct ThinPart {
  int64_t columns_from = 0, columns = 0;  // of x or d y
  int64_t rank_from = 0, ranks = 0;       // of all ranks
  int64_t member = 0, d_b_at = 0;         // backward: whose d b, and its first element there
  int64_t first_block = 0, blocks = 0;    // along the columns
  int64_t sums_at = 0, gradient_at = 0;   // partial sums: fp32 numbers in front of them
};

struct ThinCut {
  std::vector<ThinPart> parts;
  int64_t tiles = 1;  // of columns, a block
  int64_t column_blocks = 0, token_blocks = 1, tokens_each = 0;
  int64_t numbers = 0;  // fp32, of partial sums
  bool fits = false;    // within kMaxThinParts and kFoldedCounters
};

namespace thin {

inline void add_chunks(std::vector<ThinPart>& parts, ThinPart part, int64_t ranks) {
  for (int64_t done = 0; done < ranks; done += kThinRanks) {
    part.ranks = std::min<int64_t>(kThinRanks, ranks - done);
    parts.push_back(part);
    part.rank_from += part.ranks, part.d_b_at += part.ranks;
  }
}

// Sets blocks of `tiles` tiles of columns, and of so many tokens that a GPU runs all blocks at
// once; blocks along the columns alone may be more than that.
inline void set_blocks(ThinCut& cut, int64_t tiles, int64_t planned, int64_t multiprocessors) {
  cut.tiles = tiles, cut.column_blocks = 0;
  for (ThinPart& part : cut.parts) {
    part.first_block = cut.column_blocks, part.blocks = ceil_div(part.columns, tiles * kThinColumns);
    cut.column_blocks += part.blocks;
  }
  const int64_t token_tiles = std::max<int64_t>(ceil_div(planned, kThinTokens), 1);
  const int64_t wanted =
      std::max<int64_t>(kThinBlocksEach * multiprocessors / std::max<int64_t>(cut.column_blocks, 1), 1);
  cut.tokens_each = ceil_div(token_tiles, std::min(wanted, token_tiles)) * kThinTokens;
}

inline void set_numbers(ThinCut& cut, int64_t tokens, bool backward) {
  cut.token_blocks = std::max<int64_t>(ceil_div(tokens, cut.tokens_each), 1), cut.numbers = 0;
  for (ThinPart& part : cut.parts) {
    part.sums_at = cut.numbers, cut.numbers += part.blocks * tokens * part.ranks;
    if (backward) part.gradient_at = cut.numbers, cut.numbers += cut.token_blocks * part.columns * part.ranks;
  }
}

// Returns the division with the fewest partial sums for the planned tokens: long stretches of
// columns leave few sums of S, long stretches of tokens few of d B.
template <class Args>
ThinCut cut_of(std::vector<ThinPart> parts, const Args& args, bool backward) {
  int64_t ranks = 0;
  for (const ThinPart& part : parts) ranks = std::max(ranks, part.ranks);
  const int64_t held = ranks <= 16 ? kMostTiles<16> : kMostTiles<64>;
  ThinCut cut, tried{.parts = std::move(parts)};
  const int64_t planned = std::max(args.planned, args.tokens);
  for (int64_t tiles = backward ? held : kForwardTiles; tiles > 0; tiles /= 2) {
    set_blocks(tried, tiles, planned, args.multiprocessors);
    set_numbers(tried, planned, backward);
    if (cut.parts.empty() || tried.numbers < cut.numbers) cut = tried;
  }
  set_numbers(cut, args.tokens, backward);
  const auto count = static_cast<int64_t>(cut.parts.size());
  cut.fits = count <= kMaxThinParts && cut.column_blocks + count * cut.token_blocks <= kFoldedCounters;
  return cut;
}

inline int64_t ranks_of(const FoldedMember* members, int64_t count) {
  int64_t ranks = 0;
  for (int64_t i = 0; i < count; ++i) ranks += members[i].rank;
  return ranks;
}

}  // namespace thin

inline ThinCut thin_cut(const AdapterSums& args) {
  std::vector<ThinPart> parts;
  thin::add_chunks(parts, {.columns = args.width}, thin::ranks_of(args.member, args.members));
  return thin::cut_of(std::move(parts), args, false);
}

inline ThinCut thin_cut(const AdapterSumsGradient& args) {
  std::vector<ThinPart> parts;
  int64_t column = 0, rank = 0;
  for (int64_t i = 0; i < args.members; ++i) {
    const FoldedMember& m = args.member[i];
    thin::add_chunks(parts, {.columns_from = column, .columns = m.out, .rank_from = rank, .member = i}, m.rank);
    column += m.out, rank += m.rank;
  }
  return thin::cut_of(std::move(parts), args, true);
}

// Returns the reason why one launch cannot do it; empty if it can.
template <class Args>
std::string thin_refusal(const Args& args) {
  if (args.type == Element::f32) return "tensor cores take 16 bits";
  return args.members > kMaxFoldedMembers || !thin_cut(args).fits ? "more modules than one launch takes" : "";
}

}  // namespace forge
