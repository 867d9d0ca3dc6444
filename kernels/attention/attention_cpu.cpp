// Flash attention (Dao et al., 2022) for the CPU: the scores of some 96 query rows against up to 128 keys lie
// in the cache and nowhere else. The rows are the positions of a block times the query heads that share the
// key head, position by position, so a register tile of six rows ends at almost one causal limit and half of
// the products are never made.
#ifdef FORGE_ISA
#include "kernels/cpu/gemm.h"

namespace forge::FORGE_ISA {
namespace flash {

FORGE_INLINE int64_t up(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

template <class T>
const T* at(const void* base, int64_t stride, int64_t token, int64_t offset) {
  return static_cast<const T*>(base) + token * stride + offset;
}
template <class T>
T* at(void* base, int64_t stride, int64_t token, int64_t offset) {
  return static_cast<T*>(base) + token * stride + offset;
}

// Asks for the row of a token some tokens later: rows of one head lie too far apart for the processor to foresee.
template <class T>
FORGE_INLINE void ask_ahead(const T* row, int64_t d, int64_t stride) {
  constexpr int64_t kTokens = 6, kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < d; i += kLine) __builtin_prefetch(row + kTokens * stride + i);
}

// Asks for a row that is read or written after the block at hand: spread over its rows, these cost nothing.
template <class T>
FORGE_INLINE void ask(const void* base, int64_t stride, int64_t token, int64_t offset, int64_t d) {
  const char* row = reinterpret_cast<const char*>(at<T>(base, stride, token, offset));
  for (int64_t i = 0; i < d * static_cast<int64_t>(sizeof(T)); i += 64) __builtin_prefetch(row + i);
}

// to[:d] = from · factor; lanes past d become zero.
template <class T>
FORGE_INLINE void copy_row(const T* from, int64_t stride, int64_t d, float factor, float* to) {
  ask_ahead(from, d, stride);
  for_lanes(d, [&](int64_t i, int n) FORGE_LAMBDA { store(to + i, load_n(from + i, n) * set(factor)); });
}

template <class T>
void load_keys(const void* base, int64_t stride, int64_t token, int64_t offset, int64_t count, int64_t d,
               int64_t ld, float* rows) {
  for (int64_t j = 0; j < count; ++j)
    copy_row(at<T>(base, stride, token + j, offset), stride, d, 1.0f, rows + j * ld);
}
// across[i, j] = rows[j, i]; columns up to a whole vector become zero. Rows have `ld` floats, four at a time are read: rows
// past d and count hold anything.
void transpose(const float* rows, int64_t count, int64_t d, int64_t ld, float* across) {
  for (int64_t j = 0; j < count; j += 4)
    for (int64_t i = 0; i < d; i += 4)
      transpose4(rows + j * ld + i, ld, across + i * kScoreStride + j, kScoreStride);
  for (int64_t i = 0; i < d; ++i)
    for (int64_t j = count; j < up(count); ++j) across[i * kScoreStride + j] = 0;
}

// Rows of one block: positions [first, first + count) times `group` heads.
struct Rows {
  int64_t first, count, group;
  int64_t total() const { return count * group; }
  int64_t position(int64_t row) const { return first + row / group; }
  // visit(row, position, head of the group) of every row.
  template <class Visit>
  FORGE_INLINE void each(Visit visit) const {
    for (int64_t i = 0, row = 0; i < count; ++i)
      for (int64_t head = 0; head < group; ++head) visit(row++, first + i, head);
  }
};

constexpr int64_t kRowStep = 2 * kTileRows;  // rows of scores, or keys, that share one causal limit

// Keys [first, …) that a position may see, at most `count`.
FORGE_INLINE int64_t visible(int64_t position, int64_t first_key, int64_t count) {
  return std::clamp<int64_t>(position + 1 - first_key, 0, count);
}
// Where the zeros behind a row's `seen` scores end: a product takes kRowStep rows or keys up to the last one's
// limit.
FORGE_INLINE int64_t end_of_zeros(int64_t seen) { return up(seen + kRowStep); }

// score = left · acrossᵀ, tile by tile up to each tile's causal limit.
void products(const Rows& rows, int64_t first_key, int64_t keys, const float* left, int64_t d, int64_t ld,
              const float* across, float* score) {
  for (int64_t r = 0; r < rows.total(); r += kRowStep) {
    int64_t m = std::min(kRowStep, rows.total() - r),
            n = up(visible(rows.position(r + m - 1), first_key, keys));
    if (n > 0)
      gemm(m, n, d, left + r * ld, ld, 1, across, kScoreStride, score + r * kScoreStride, kScoreStride,
           false);
  }
}

// sum = score · right over the visible keys, or + of it. [rows, d]
void weighted_sum(const Rows& rows, int64_t first_key, int64_t keys, const float* score, const float* right,
                  int64_t d, int64_t ld, float* sum, bool add) {
  for (int64_t r = 0; r < rows.total(); r += kRowStep) {
    int64_t m = std::min(kRowStep, rows.total() - r), k = visible(rows.position(r + m - 1), first_key, keys);
    gemm(m, up(d), k, score + r * kScoreStride, kScoreStride, 1, right, ld, sum + r * ld, ld, add);
  }
}

// Turns scores of row r into exp(s − m), with zeros behind, and corrects what earlier keys summed.
void softmax_row(AttentionScratch& t, int64_t r, int64_t seen, bool first, int64_t d) {
  float* score = t.score + r * kScoreStride;
  const F lowest = set(-HUGE_VALF);
  F high = first ? lowest : set(t.largest[r]);
  auto scores = [&](int64_t i, int n) FORGE_LAMBDA {
    return n == kLanes ? load(score + i) : keep_first(load(score + i), n, lowest);
  };
  for_lanes(seen, [&](int64_t i, int n) FORGE_LAMBDA { high = max(high, scores(i, n)); });
  const float largest = max_of(high);
  F total = set(0);
  for_lanes(seen, [&](int64_t i, int n) FORGE_LAMBDA {
    F e = exp(scores(i, n) - set(largest));
    store(score + i, e);
    total = total + e;
  });
  for (int64_t i = up(seen); i < end_of_zeros(seen); i += kLanes) store(score + i, set(0));
  const float keep = first ? 0 : std::exp(t.largest[r] - largest);
  t.total[r] = (first ? 0 : t.total[r] * keep) + sum(total);
  t.largest[r] = largest;
  if (first || keep == 1) return;
  for (int64_t i = 0; i < up(d); i += kLanes)
    store(t.sum + r * t.ld + i, load(t.sum + r * t.ld + i) * set(keep));
}

template <class T>
void forward_rows(const AttentionForward& a, const AttentionTask& task, AttentionScratch& t, const Rows& rows,
                  int64_t& packed) {
  const AttentionShape& s = a.shape;
  int64_t d = s.head_dim, offset = task.kv_head * rows.group * d;
  rows.each([&](int64_t r, int64_t position, int64_t head) FORGE_LAMBDA {
    copy_row(at<T>(a.q, a.q_stride, task.begin + position, offset + head * d), a.q_stride, d, s.scale,
             t.q + r * t.ld);
  });
  for (int64_t key = 0; key < rows.first + rows.count; key += kKeyBlock) {
    int64_t keys = std::min(kKeyBlock, task.length - key);
    if (packed != key) {
      load_keys<T>(a.k, a.k_stride, task.begin + key, task.kv_head * d, keys, d, t.ld, t.keys);
      transpose(t.keys, keys, d, t.ld, t.keys_across);
      load_keys<T>(a.v, a.v_stride, task.begin + key, task.kv_head * d, keys, d, t.ld, t.values);
      packed = key;
    }
    products(rows, key, keys, t.q, d, t.ld, t.keys_across, t.score);
    const bool last_keys = key + kKeyBlock >= rows.first + rows.count;
    rows.each([&](int64_t r, int64_t position, int64_t head) FORGE_LAMBDA {
      if (last_keys) {
        ask<T>(a.out, a.out_stride, task.begin + position, offset + head * d, d);
        if (position + rows.count < task.last)
          ask<T>(a.q, a.q_stride, task.begin + position + rows.count, offset + head * d, d);
      }
      softmax_row(t, r, visible(position, key, keys), key == 0, d);
    });
    weighted_sum(rows, key, keys, t.score, t.values, d, t.ld, t.sum, key != 0);
  }
  rows.each([&](int64_t r, int64_t position, int64_t head) FORGE_LAMBDA {
    T* out = at<T>(a.out, a.out_stride, task.begin + position, offset + head * d);
    F inverse = set(1.0f / t.total[r]);
    for_lanes(
        d, [&](int64_t i, int n) FORGE_LAMBDA { store_n(out + i, load(t.sum + r * t.ld + i) * inverse, n); });
    if (a.lse)
      a.lse[(task.begin + position) * s.heads + task.kv_head * rows.group + head] =
          t.largest[r] + std::log(t.total[r]);
  });
}

template <class T>
void forward(const AttentionForward& a, const AttentionTask& task, AttentionScratch& t) {
  int64_t group = a.shape.heads / a.shape.kv_heads, step = query_block(a.shape), packed = -1;
  for (int64_t first = task.first; first < task.last; first += step)
    forward_rows<T>(a, task, t, {first, std::min(step, task.last - first), group}, packed);
}

template <class T>
void load_key_block(const AttentionBackward& a, const AttentionTask& task, AttentionScratch& t, int64_t key,
                    int64_t keys) {
  int64_t d = a.shape.head_dim;
  load_keys<T>(a.k, a.k_stride, task.begin + key, task.kv_head * d, keys, d, t.ld, t.keys);
  load_keys<T>(a.v, a.v_stride, task.begin + key, task.kv_head * d, keys, d, t.ld, t.values);
  transpose(t.keys, keys, d, t.ld, t.keys_across);
  transpose(t.values, keys, d, t.ld, t.values_across);
}

// q, d_out and their row numbers of one block.
template <class T>
void load_rows(const AttentionBackward& a, const AttentionTask& task, AttentionScratch& t, const Rows& rows) {
  int64_t d = a.shape.head_dim;
  rows.each([&](int64_t r, int64_t position, int64_t in_group) FORGE_LAMBDA {
    int64_t token = task.begin + position, head = task.kv_head * rows.group + in_group;
    copy_row(at<T>(a.q, a.q_stride, token, head * d), a.q_stride, d, a.shape.scale, t.q + r * t.ld);
    const T *out = at<T>(a.out, a.out_stride, token, head * d),
            *d_out = at<T>(a.d_out, a.d_out_stride, token, head * d);
    copy_row(d_out, a.d_out_stride, d, 1.0f, t.d_out + r * t.ld);
    ask_ahead(out, d, a.out_stride);
    F delta = set(0);
    for_lanes(d, [&](int64_t i, int n)
                     FORGE_LAMBDA { delta = fma(load_n(out + i, n), load_n(d_out + i, n), delta); });
    t.delta[r] = sum(delta);
    t.largest[r] = a.lse[token * a.shape.heads + head];
  });
}

// score = p, slope = d s, zero behind what a row sees. visit(position, head of the group) comes with every row.
template <class Visit>
void score_gradients(AttentionScratch& t, const Rows& rows, int64_t first_key, int64_t keys, int64_t d,
                     Visit visit) {
  products(rows, first_key, keys, t.q, d, t.ld, t.keys_across, t.score);
  products(rows, first_key, keys, t.d_out, d, t.ld, t.values_across, t.slope);
  rows.each([&](int64_t r, int64_t position, int64_t head) FORGE_LAMBDA {
    visit(position, head);
    float *score = t.score + r * kScoreStride, *slope = t.slope + r * kScoreStride;
    const int64_t seen = visible(position, first_key, keys);
    for_lanes(seen, [&](int64_t i, int n) FORGE_LAMBDA {
      auto kept = [n](F x) FORGE_LAMBDA { return n == kLanes ? x : keep_first(x, n, set(0)); };
      F p = exp(load(score + i) - set(t.largest[r]));
      store(score + i, kept(p));
      store(slope + i, kept(p * (load(slope + i) - set(t.delta[r]))));
    });
    for (int64_t i = up(seen); i < end_of_zeros(seen); i += kLanes)
      store(score + i, set(0)), store(slope + i, set(0));
  });
}

template <class T>
void store_rows(float* from, int64_t ld, float factor, void* base, int64_t stride, int64_t token,
                int64_t offset, int64_t count, int64_t d) {
  for (int64_t j = 0; j < count; ++j) {
    T* out = at<T>(base, stride, token + j, offset);
    for_lanes(d, [&](int64_t i, int n)
                     FORGE_LAMBDA { store_n(out + i, load(from + j * ld + i) * set(factor), n); });
  }
}

template <class T>
void store_query_gradient(const AttentionBackward& a, const AttentionTask& task, AttentionScratch& t,
                          const Rows& rows) {
  const int64_t d = a.shape.head_dim;
  rows.each([&](int64_t r, int64_t position, int64_t head) FORGE_LAMBDA {
    store_rows<T>(t.sum + r * t.ld, t.ld, a.shape.scale, a.d_q, a.d_q_stride, task.begin + position,
                  (task.kv_head * rows.group + head) * d, 1, d);
  });
}

// d k and d v gather over the rows that see a key: the left factor is read transposed.
void gather_keys(AttentionScratch& t, const Rows& rows, int64_t first_key, int64_t keys, int64_t d) {
  const int64_t seen = visible(rows.first + rows.count - 1, first_key, keys);
  for (int64_t key = 0; key < seen; key += kRowStep) {
    const int64_t m = std::min(kRowStep, seen - key),
                  row = std::max<int64_t>(0, first_key + key - rows.first) * rows.group,
                  k = rows.total() - row, from = row * kScoreStride + key;
    gemm(m, up(d), k, t.slope + from, 1, kScoreStride, t.q + row * t.ld, t.ld, t.d_keys + key * t.ld, t.ld,
         true);
    gemm(m, up(d), k, t.score + from, 1, kScoreStride, t.d_out + row * t.ld, t.ld, t.d_values + key * t.ld,
         t.ld, true);
  }
}

// The queries [task.first, task.last) against all their keys; a sequence of one block gives d k and d v with
// it.
template <class T>
void backward_queries(const AttentionBackward& a, const AttentionTask& task, AttentionScratch& t) {
  int64_t d = a.shape.head_dim, group = a.shape.heads / a.shape.kv_heads, step = query_block(a.shape);
  bool both = task.pass == AttentionPass::both;
  int64_t packed = -1;
  for (int64_t first = task.first; first < task.last; first += step) {
    Rows rows{first, std::min(step, task.last - first), group};
    load_rows<T>(a, task, t, rows);
    for (int64_t key = 0; key < rows.first + rows.count; key += kKeyBlock) {
      int64_t keys = std::min(kKeyBlock, task.length - key);
      if (packed != key) load_key_block<T>(a, task, t, key, keys);
      packed = key;
      const bool last_keys = key + kKeyBlock >= rows.first + rows.count;
      score_gradients(t, rows, key, keys, d, [&](int64_t position, int64_t in_group) FORGE_LAMBDA {
        if (!last_keys) return;
        const int64_t token = task.begin + position, offset = (task.kv_head * group + in_group) * d;
        ask<T>(a.d_q, a.d_q_stride, token, offset, d);
        if (position + rows.count >= task.last) return;
        ask<T>(a.q, a.q_stride, token + rows.count, offset, d);
        ask<T>(a.out, a.out_stride, token + rows.count, offset, d);
        ask<T>(a.d_out, a.d_out_stride, token + rows.count, offset, d);
      });
      weighted_sum(rows, key, keys, t.slope, t.keys, d, t.ld, t.sum, key != 0);
      if (both) gather_keys(t, rows, key, keys, d);
    }
    store_query_gradient<T>(a, task, t, rows);
  }
}

template <class T>
void backward(const AttentionBackward& a, const AttentionTask& task, AttentionScratch& t) {
  int64_t d = a.shape.head_dim, keys = task.last - task.first;
  if (task.pass != AttentionPass::queries) {
    std::fill(t.d_keys, t.d_keys + keys * t.ld, 0.0f);
    std::fill(t.d_values, t.d_values + keys * t.ld, 0.0f);
  }
  if (task.pass != AttentionPass::keys) backward_queries<T>(a, task, t);
  if (task.pass == AttentionPass::queries) return;
  if (task.pass == AttentionPass::keys) {
    int64_t group = a.shape.heads / a.shape.kv_heads, step = query_block(a.shape);
    load_key_block<T>(a, task, t, task.first, keys);
    for (int64_t first = task.first; first < task.length; first += step) {
      Rows rows{first, std::min(step, task.length - first), group};
      load_rows<T>(a, task, t, rows);
      score_gradients(t, rows, task.first, keys, d, [](int64_t, int64_t) FORGE_LAMBDA {});
      gather_keys(t, rows, task.first, keys, d);
    }
  }
  // q was scaled when it was loaded, so d k already is.
  store_rows<T>(t.d_keys, t.ld, 1.0f, a.d_k, a.d_k_stride, task.begin + task.first, task.kv_head * d, keys,
                d);
  store_rows<T>(t.d_values, t.ld, 1.0f, a.d_v, a.d_v_stride, task.begin + task.first, task.kv_head * d, keys,
                d);
}

}  // namespace flash

void attention_forward_task(const AttentionForward& a, const AttentionTask& task, AttentionScratch t) {
  if (a.shape.type == Element::f32)
    flash::forward<float>(a, task, t);
  else if (a.shape.type == Element::bf16)
    flash::forward<Bf16>(a, task, t);
  else
    flash::forward<F16>(a, task, t);
}
void attention_backward_task(const AttentionBackward& a, const AttentionTask& task, AttentionScratch t) {
  if (a.shape.type == Element::f32)
    flash::backward<float>(a, task, t);
  else if (a.shape.type == Element::bf16)
    flash::backward<Bf16>(a, task, t);
  else
    flash::backward<F16>(a, task, t);
}

}  // namespace forge::FORGE_ISA

#else

#include "kernels/attention/attention_args.h"
#include "kernels/attention/attention_tiles.h"
#include "kernels/cpu/parallel.h"
#define FORGE_KERNEL_FILE "kernels/attention/attention_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {
namespace {

int64_t floats_of_thread(const AttentionShape& shape) {
  int64_t floats = 0;
  attention_scratch(shape, nullptr, &floats);
  return floats;
}

template <class Args, class Task>
void run(const Args& args, bool backward, Task task) {
  int64_t floats = floats_of_thread(args.shape);
  float* base = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(args.workspace) + 63) / 64 * 64);
  // The key heads of a sequence lie side by side in memory: one thread takes them all, where every thread gets
  // some.
  const AttentionShape& s = args.shape;
  const int64_t together = s.sequences >= 4 * task_threads() ? std::max<int64_t>(1, s.kv_heads) : 1;
  parallel_tasks(
      count_tasks(s, backward),
      [&](int64_t index, int64_t thread) {
        int64_t unused;
        task(args, task_at(s, backward, index), attention_scratch(s, base + thread * floats, &unused));
      },
      together);
}

}  // namespace

int64_t attention_forward_cpu_workspace(const AttentionForward& args) {
  return 64 + task_threads() * floats_of_thread(args.shape) * 4;
}
int64_t attention_backward_cpu_workspace(const AttentionBackward& args) {
  return 64 + task_threads() * floats_of_thread(args.shape) * 4;
}

void attention_forward_cpu(const AttentionForward& args, CpuLevel level) {
  run(args, false, FORGE_PICK(level, attention_forward_task));
}
void attention_backward_cpu(const AttentionBackward& args, CpuLevel level) {
  run(args, true, FORGE_PICK(level, attention_backward_task));
}

}  // namespace forge

#endif
