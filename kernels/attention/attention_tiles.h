#pragma once
// Divides the work of the CPU attention into tasks and a thread's workspace into buffers.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/attention/attention_args.h"

namespace forge {

constexpr int64_t kKeyBlock = 128;          // keys whose scores are in cache together
constexpr int64_t kScoreStride = 128 + 16;  // past 128: rows of 512 bytes would share cache sets

enum class AttentionPass { both, queries, keys };

// A piece of work: queries [first, last) of one sequence against one key head; or, for the pass
// over keys, the keys [first, last) against all later queries.
struct AttentionTask {
  int64_t begin, length;  // the sequence's first token and its tokens
  int64_t kv_head, first, last;
  AttentionPass pass;
};

// Positions whose rows (one for each query head of the group) are worked on together: about 96
// rows.
inline int64_t query_block(const AttentionShape& s) {
  return std::max<int64_t>(1, 96 / (s.heads / std::max<int64_t>(1, s.kv_heads)));
}

struct AttentionScratch {
  float *q, *keys_across, *keys, *values_across, *values;  // [rows, d] [d, keys] [keys, d] …
  float *score, *slope, *bend;                             // [rows, keys]; bend: with a cap only
  float *sum, *d_out, *d_keys, *d_values;                  // [rows, d] [rows, d] [keys, d] [keys, d]
  float *largest, *total, *delta;                          // [rows]
  int64_t ld;                                              // of [., d]
};

inline AttentionScratch attention_scratch(const AttentionShape& s, float* next, int64_t* floats) {
  int64_t ld = (s.head_dim + 15) / 16 * 16 + 16,
          rows = query_block(s) * (s.heads / std::max<int64_t>(1, s.kv_heads));
  float* begin = next;
  auto take = [&](int64_t count) { return std::exchange(next, next + (count + 15) / 16 * 16); };
  AttentionScratch t;
  t.ld = ld;
  for (float** wide : {&t.q, &t.sum, &t.d_out}) *wide = take(rows * ld);
  for (float** keys : {&t.keys, &t.values, &t.d_keys, &t.d_values}) *keys = take(kKeyBlock * ld);
  for (float** across : {&t.keys_across, &t.values_across}) *across = take(ld * kScoreStride);
  for (float** scores : {&t.score, &t.slope}) *scores = take(rows * kScoreStride);
  t.bend = s.softcap != 0 ? take(rows * kScoreStride) : nullptr;
  for (float** vector : {&t.largest, &t.total, &t.delta}) *vector = take(rows);
  *floats = next - begin;
  return t;
}

// Bytes of the workspace of a forward or backward, with its alignment.
inline int64_t attention_tiles_workspace(const AttentionShape& s, int64_t threads) {
  int64_t floats = 0;
  attention_scratch(s, nullptr, &floats);
  return 64 + 4 * threads * floats;
}

// each_task() visits all tasks of a call, count_tasks() counts them, task_at() returns the one of a
// given number. Sequences of up to 128 tokens are one task for each key head and pass; longer ones
// are cut so that one sequence keeps all threads busy.
template <class Visit>
void each_task(const AttentionShape& s, bool backward, Visit visit) {
  for (int64_t i = 0; i < s.sequences; ++i) {
    int64_t begin = s.cu_seqlens[i], length = s.cu_seqlens[i + 1] - begin;
    bool whole = length <= kKeyBlock;
    for (int64_t head = 0; head < s.kv_heads; ++head)
      for (int64_t first = 0; first < length; first += kKeyBlock) {
        int64_t last = std::min(length, first + kKeyBlock);
        visit(AttentionTask{begin, length, head, first, last,
                            whole ? AttentionPass::both : AttentionPass::queries});
        if (backward && !whole) visit(AttentionTask{begin, length, head, first, last, AttentionPass::keys});
      }
  }
}

inline int64_t count_tasks(const AttentionShape& s, bool backward) {
  int64_t count = 0;
  each_task(s, backward, [&](const AttentionTask&) { ++count; });
  return count;
}

inline AttentionTask task_at(const AttentionShape& s, bool backward, int64_t index) {
  AttentionTask found{};
  each_task(s, backward, [&](const AttentionTask& task) {
    if (index-- == 0) found = task;
  });
  return found;
}

}  // namespace forge
