#pragma once
// Divides the work of the CPU's delta rule into tasks and a thread's workspace into buffers.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/delta_rule/delta_rule_args.h"

namespace forge {

constexpr int64_t kDeltaChunk = 64;
constexpr int64_t kDeltaStride =
    kDeltaChunk + 16;  // past 64: rows of 256 bytes would share cache sets

// A text and one head of q and k with its heads of v.
struct DeltaTask {
  int64_t begin = 0, tokens = 0, head = 0;
};

inline int64_t value_heads_of_group(const DeltaRuleShape& s) {
  return s.value_heads / std::max<int64_t>(1, s.key_heads);
}
inline int64_t delta_chunks(int64_t tokens) { return (tokens + kDeltaChunk - 1) / kDeltaChunk; }

// A thread's buffers. Two operands in one buffer are one after the other, as many rows as the chunk
// has tokens.
struct DeltaScratch {
  int64_t key_ld = 0, value_ld = 0;
  float* qk = nullptr;      // q̂, then k̂ [2 chunk, key_dim]
  float* across = nullptr;  // k̂ᵀ [key_dim, chunk]
  float* scores = nullptr;  // q̂ k̂ᵀ, then k̂ k̂ᵀ [2 chunk, chunk]
  float* decay = nullptr;   // e^{G_i − G_j} [chunk, chunk]
  float* mix = nullptr;     // of X in y [chunk, chunk]; in the backward then of k̂ in d q̂
  float* solve = nullptr;   // −A [chunk, chunk]; in the backward then of k̂ in d k̂
  float* v = nullptr;       // [chunk, value_dim]
  float* x = nullptr;       // X [chunk, value_dim]
  float* read = nullptr;    // q̂ S, then k̂ S [2 chunk, value_dim]
  float* states =
      nullptr;  // of the group's heads [key_dim, value_dim]; in the backward those of every chunk
  // For the backward:
  float* d = nullptr;         // d y, then d X [2 chunk, value_dim]
  float* pushed = nullptr;    // k̂ d S' [chunk, value_dim]
  float* x_across = nullptr;  // Xᵀ [value_dim, chunk]
  float* d_scores = nullptr;  // d y Xᵀ, then d R Xᵀ [2 chunk, chunk]
  float* turned = nullptr;    // Sᵀ or d S'ᵀ [value_dim, key_dim]
  float* d_qk = nullptr;      // [2 chunk, key_dim]
  float* d_states = nullptr;  // of the group's heads
  float* d_gates = nullptr;   // d g, then d β of the group's heads [2 value heads, chunk]
  int64_t state_floats() const { return key_rows * value_ld; }
  int64_t key_rows = 0;
};

// Returns the buffers from `next` on, and their size: of the forward, or of a backward over
// `chunks` chunks.
inline DeltaScratch delta_scratch(const DeltaRuleShape& s, int64_t chunks, bool backward,
                                  float* next, int64_t* floats) {
  const auto round16 = [](int64_t n) { return (n + 15) / 16 * 16; };
  float* begin = next;
  const auto take = [&](int64_t count) { return std::exchange(next, next + round16(count)); };
  DeltaScratch t;
  t.key_ld = round16(s.key_dim) + 16, t.value_ld = round16(s.value_dim) + 16,
  t.key_rows = round16(s.key_dim);
  const int64_t keys = kDeltaChunk * t.key_ld, values = kDeltaChunk * t.value_ld,
                square = kDeltaChunk * kDeltaStride, heads = value_heads_of_group(s);
  t.qk = take(2 * keys), t.across = take(t.key_rows * kDeltaStride), t.scores = take(2 * square);
  t.decay = take(square), t.mix = take(square), t.solve = take(square);
  t.v = take(values), t.x = take(values), t.read = take(2 * values);
  t.states = take(heads * (backward ? std::max<int64_t>(1, chunks) : 1) * t.state_floats());
  if (backward) {
    t.d = take(2 * values), t.pushed = take(values),
    t.x_across = take(round16(s.value_dim) * kDeltaStride);
    t.d_scores = take(2 * square), t.turned = take(round16(s.value_dim) * t.key_ld),
    t.d_qk = take(2 * keys);
    t.d_states = take(heads * t.state_floats()), t.d_gates = take(2 * heads * kDeltaChunk);
  }
  *floats = next - begin;
  return t;
}

// Returns the bytes for all threads, with the alignment of the first buffer.
inline int64_t delta_rule_workspace(const DeltaRuleShape& s, bool backward, int64_t threads) {
  int64_t floats = 0;
  delta_scratch(s, delta_chunks(s.tokens), backward, nullptr, &floats);
  return 4 * floats * threads + 64;
}

}  // namespace forge
