#pragma once
// Divides the workspace of lm_head_cpu.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/lm_head/lm_head_args.h"

namespace forge {

constexpr int64_t kPad = 16;  // floats past every row

enum class HeadVisit { first, weight, second };

// One thread's tiles; the names are those of lm_head_cpu.cpp.
struct HeadScratch {
  float *x, *tile, *z, *other, *sum, *gradient, *columns;
  float *largest, *keep, *total, *weighted, *plain, *target;  // [block]
};

struct HeadSpace {
  int64_t block = 0, tile_rows = 0;  // positions and vocabulary rows that meet in the cache
  int64_t ldm = 0, ldw = 0;          // row strides of [., block] and [., width]
  bool wants_weighted = false, wants_plain = false, wants_columns = false, second_visit = false;
  int64_t valid = 0;
  int64_t* rows = nullptr;                    // [positions] those with a target
  float *lse = nullptr, *expected = nullptr;  // [positions]
  float* first = nullptr;                     // of thread 0's scratch
  int64_t thread_floats = 0, bytes = 0;

  HeadScratch scratch(int64_t thread) const {
    float* next = first + thread * thread_floats;
    auto take = [&](int64_t floats) { return std::exchange(next, next + floats); };
    HeadScratch s;
    s.x = take((ldw - kPad) * ldm);
    s.tile = take(tile_rows * ldw);
    s.z = take(tile_rows * ldm);
    s.other = second_or_weight ? take(tile_rows * ldm) : nullptr;
    s.sum = take(block * ldw);
    s.gradient = second_or_weight ? take(tile_rows * ldw) : nullptr;
    s.columns = take(ldw);
    for (float** vector : {&s.largest, &s.keep, &s.total, &s.weighted, &s.plain, &s.target})
      *vector = take(block);
    return s;
  }
  bool second_or_weight = false;
};

// Returns the division for `threads` that share the positions.
inline HeadSpace head_space(const LmHead& a, void* workspace, int64_t threads) {
  HeadSpace space;
  int64_t share = (a.positions + threads - 1) / threads;
  auto round16 = [](int64_t n) { return (n + 15) / 16 * 16; };
  space.block = std::clamp<int64_t>(round16(share), 16, 128);
  // Tile, block, logits and sum together fit a second-level cache of 1 MiB for widths up to 600;
  // wider ones get a lower tile.
  space.tile_rows = std::clamp<int64_t>(round16(128 * 600 / std::max<int64_t>(1, a.width)), 32, 128);
  space.ldm = space.block + kPad;
  space.ldw = round16(a.width) + kPad;
  bool mean = a.g_mean_logit || (a.loss_weight && a.label_smoothing != 0);
  space.wants_weighted = a.entropy || a.g_entropy;
  space.wants_plain = a.mean_logit || (a.loss && a.label_smoothing != 0);
  space.wants_columns = mean && a.d_hidden;
  // A gradient that overwrites the hidden states is computed after the weight's, which reads them.
  const bool waits = a.d_weight && a.d_hidden == a.hidden;
  space.second_visit = a.g_entropy || (mean && a.softcap != 0) || (a.d_hidden && waits);
  space.second_or_weight = space.second_visit || a.d_weight;
  int64_t positions = round16(a.positions);
  space.thread_floats = (space.ldw - kPad) * space.ldm + (2 * space.tile_rows + space.block) * space.ldw +
                        2 * space.tile_rows * space.ldm + space.ldw + 6 * space.block;
  char* base = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(workspace) + 63) / 64 * 64);
  space.rows = reinterpret_cast<int64_t*>(base);
  space.lse = reinterpret_cast<float*>(base + positions * 8);
  space.expected = space.lse + positions;
  space.first = space.expected + positions;
  space.bytes = 64 + positions * 16 + threads * space.thread_floats * 4;
  return space;
}

}  // namespace forge
