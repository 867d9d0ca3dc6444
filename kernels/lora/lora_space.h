#pragma once
// Divides the workspace of lora_cpu.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/lora/lora_args.h"

namespace forge {

constexpr int64_t kLoraRows = 32;      // tokens of a tile
constexpr int64_t kLoraColumns = 128;  // features of a tile
constexpr int64_t kLoraStride = kLoraColumns + 16;

inline int64_t round16(int64_t n) { return (n + 15) / 16 * 16; }

// One thread's tiles.
struct LoraScratch {
  float *tile, *product, *mask;  // [rows, columns]
  float *s, *d_s;                // [rows, members · padded rank]
};

struct LoraSpace {
  int64_t rank16 = 0, ranks16 = 0;  // of a member; of the group
  int64_t width16 = 0;
  int64_t chunk = 0, chunks = 0;  // tokens whose weight gradients are one partial sum, whatever the threads
  int64_t partial_floats = 0;     // of one chunk: d A, then each d B
  float *a = nullptr,
        *b[kMaxLoraMembers] = {};  // A and B in fp32, padded, turned as the direction wants them
  float* partial = nullptr;
  float* first = nullptr;
  int64_t thread_floats = 0, bytes = 0;

  LoraScratch scratch(int64_t thread) const {
    float* next = first + thread * thread_floats;
    int64_t tile = kLoraRows * kLoraStride, rows = kLoraRows * ranks16;
    return {next, next + tile, next + 2 * tile, next + 3 * tile, next + 3 * tile + rows};
  }
};

inline LoraSpace lora_space(const LoraGroup& g, bool backward, void* workspace, int64_t threads) {
  LoraSpace space;
  space.rank16 = round16(g.rank);
  space.ranks16 = g.members * space.rank16;
  space.width16 = round16(g.width);
  space.chunk = std::max<int64_t>(256, (g.tokens + 15) / 16);
  space.chunks = backward ? (g.tokens + space.chunk - 1) / space.chunk : 0;
  uintptr_t base = (reinterpret_cast<uintptr_t>(workspace) + 63) / 64 * 64;
  int64_t floats = 0;
  auto take = [&](int64_t count) {
    return reinterpret_cast<float*>(base) + std::exchange(floats, floats + round16(count));
  };
  // Forward: Aᵀ [width, ranks16], Bᵀ [rank, out16]. Backward: A [ranks16, width16], B [out,
  // rank16].
  space.a = take(std::max(g.width, space.width16) * space.ranks16);
  space.partial_floats = space.ranks16 * space.width16;
  for (int64_t i = 0; i < g.members; ++i) {
    space.b[i] = take(round16(g.member[i].out) * space.rank16);
    space.partial_floats += g.member[i].out * space.rank16;
  }
  space.partial = take(space.chunks * space.partial_floats);
  space.thread_floats = 3 * kLoraRows * kLoraStride + 2 * kLoraRows * space.ranks16;
  space.first = take(threads * space.thread_floats);
  space.bytes = 64 + floats * 4;
  return space;
}

}  // namespace forge
