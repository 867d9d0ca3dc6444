// Flash attention (Dao et al., 2022) for the CPU: the scores of some 96 query rows against up to
// 128 keys are in the cache and nowhere else. The rows are the positions of a block times the query
// heads that share the key head, position by position. A register tile of six rows therefore ends
// at almost one causal limit, and half of the products are not computed.
//
// Scores are not kept in units of ln 2: that saved nothing (5.06 ms for 5.04), and two more
// roundings took the worst tensor of a parity test from 7e-4 past its limit of 1e-3.
#ifdef FORGE_ISA
#include "kernels/attention/attention_rows.h"
#include "kernels/cpu/gemm.h"

namespace forge::FORGE_ISA {
namespace flash {

constexpr int64_t kRowStep = 2 * kTileRows;  // rows of scores, or keys, that share one causal limit

constexpr int64_t kNoWindow = int64_t{1} << 40;
FORGE_INLINE int64_t window_of(const AttentionShape& s) { return s.window > 0 ? s.window : kNoWindow; }

// A block of keys; a position sees those from `begin` to `end`.
struct Keys {
  int64_t first, count, window;
  FORGE_INLINE int64_t begin(int64_t position) const {
    return std::clamp<int64_t>(position + 1 - window - first, 0, count);
  }
  FORGE_INLINE int64_t end(int64_t position) const {
    return std::clamp<int64_t>(position + 1 - first, 0, count);
  }
};
// The first block that any row sees.
FORGE_INLINE int64_t first_block(const Rows& rows, int64_t window) {
  return std::max<int64_t>(0, rows.first + 1 - window) / kKeyBlock * kKeyBlock;
}

FORGE_INLINE int64_t down(int64_t n) { return n / kLanes * kLanes; }
// Returns the end of the zeros after a row's `seen` scores: a product reads up to kRowStep rows or
// keys, as far as the last one's limit.
FORGE_INLINE int64_t end_of_zeros(int64_t seen) { return up(seen + kRowStep); }

// score = finish(left · acrossᵀ), tile by tile between each tile's limits; finish knows the row of
// the block.
template <class Finish = AsItIs>
void products(const Rows& rows, const Keys& keys, const float* left, int64_t d, int64_t ld,
              const float* across, float* score, Ahead& ahead, const Finish& finish = {}) {
  for (int64_t r = 0; r < rows.total(); r += kRowStep) {
    int64_t m = std::min(kRowStep, rows.total() - r), begin = down(keys.begin(rows.position(r))),
            n = up(keys.end(rows.position(r + m - 1))) - begin;
    ahead.some();
    if (n > 0)
      gemm(m, n, d, left + r * ld, ld, 1, across + begin, kScoreStride, score + r * kScoreStride + begin,
           kScoreStride, false,
           [&](F sum, int64_t row, int64_t key) FORGE_LAMBDA { return finish(sum, r + row, begin + key); });
  }
}

// sum = score · right over the visible keys, or + of it. [rows, d]
void weighted_sum(const Rows& rows, const Keys& keys, const float* score, const float* right, int64_t d,
                  int64_t ld, float* sum, bool add, Ahead& ahead) {
  for (int64_t r = 0; r < rows.total(); r += kRowStep) {
    int64_t m = std::min(kRowStep, rows.total() - r), begin = keys.begin(rows.position(r)),
            k = keys.end(rows.position(r + m - 1)) - begin;
    ahead.some();
    gemm(m, up(d), k, score + r * kScoreStride + begin, kScoreStride, 1, right + begin * ld, ld, sum + r * ld,
         ld, add);
  }
}

// Writes zeros from the first whole vector after the scores that a row sees. The loop has a
// constant length, since a loop of unknown length would become a call.
FORGE_INLINE void zero_vectors_behind(float* row, int64_t seen) {
  constexpr int64_t kMost = (kRowStep + kLanes - 1) / kLanes;
  const int64_t begin = up(seen), end = end_of_zeros(seen);
  for (int64_t i = 0; i < kMost; ++i)
    if (begin + i * kLanes < end) store(row + begin + i * kLanes, set(0));
}
FORGE_INLINE void zero_behind(float* row, int64_t seen) {
  if (seen % kLanes != 0) {
    float* last = row + seen / kLanes * kLanes;
    store(last, keep_first(load(last), seen % kLanes, set(0)));
  }
  zero_vectors_behind(row, seen);
}

// Writes `value` before the scores that a row sees, in the vector in which they begin, and zeros in
// all vectors before that one.
FORGE_INLINE void fill_before(float* row, int64_t begin, float value) {
  for (int64_t i = 0; i < down(begin); i += kLanes) store(row + i, set(0));
  float* vector = row + down(begin);
  if (begin % kLanes != 0) store(vector, keep_first(set(value), begin % kLanes, load(vector)));
}

// Turns the scores [begin, seen) of a row into e^(s − m), with zeros around them. `largest` and
// `total` are those of the row's earlier keys and become those of all keys. The caller multiplies
// the sum over the earlier keys by the result. A window can hide a whole block, also the first.
FORGE_INLINE float softmax_row(float* score, int64_t begin, int64_t seen, bool first, float& largest,
                               float& total) {
  const F lowest = set(-HUGE_VALF);
  F high = first ? lowest : set(largest);
  if (begin > 0) fill_before(score, begin, -HUGE_VALF);
  float* const from = score + down(begin);
  const int64_t count = std::max<int64_t>(0, seen - down(begin));
  for_lanes(count, [&](int64_t i, int n) FORGE_LAMBDA {
    const F s = load(from + i);
    high = max(high, n == kLanes ? s : keep_first(s, n, lowest));
  });
  const float now = max_of(high);
  F sum_now = set(0);
  for_lanes(count, [&](int64_t i, int n) FORGE_LAMBDA {
    F e = exp_of_weight(load(from + i) - set(now));
    if (n < kLanes) e = keep_first(e, n, set(0));
    store(from + i, e);
    sum_now = sum_now + e;
  });
  if (begin > 0) fill_before(score, begin, 0);
  zero_vectors_behind(score, seen);
  const float keep = first ? 0 : largest == now ? 1 : std::exp(largest - now);
  total = (first ? 0 : total * keep) + sum(sum_now);
  largest = now;
  return keep;
}

// Adds the head's sink, if there is one, to a row's `largest` and `total`. The caller multiplies
// the sum over the keys by the result.
template <class T>
FORGE_INLINE float with_sink(const AttentionShape& s, int64_t head, float& largest, float& total) {
  if (!s.sinks) return 1;
  const float sink = to_float(static_cast<const T*>(s.sinks)[head]), now = std::max(largest, sink),
              keep = std::exp(largest - now);
  total = total * keep + std::exp(sink - now);
  largest = now;
  return keep;
}

void scores(const Rows& rows, const Keys& keys, AttentionScratch& t, int64_t d, float softcap, Ahead& ahead) {
  if (softcap == 0) return products(rows, keys, t.q, d, t.ld, t.keys_across, t.score, ahead);
  products(rows, keys, t.q, d, t.ld, t.keys_across, t.score, ahead,
           [=](F s, int64_t, int64_t) FORGE_LAMBDA { return set(softcap) * tanh(s * set(1 / softcap)); });
}

template <class T>
void forward_rows(const AttentionForward& a, const AttentionTask& task, AttentionScratch& t, const Rows& rows,
                  int64_t& packed) {
  const AttentionShape& s = a.shape;
  const int64_t d = s.head_dim, ld = t.ld, offset = task.kv_head * rows.group * d,
                token = task.begin + rows.first, wide = rows.group * d;
  float *const sum = t.sum, *const score = t.score, *const total = t.total, *const largest = t.largest;
  const int64_t window = window_of(s), start = first_block(rows, window);
  load_rows(at<T>(a.q, a.q_stride, token, offset), a.q_stride, rows, d, s.scale, t.q, ld);
  for (int64_t key = start; key < rows.first + rows.count; key += kKeyBlock) {
    const Keys keys{key, std::min(kKeyBlock, task.length - key), window};
    if (packed != key) {
      load_keys<T>(a.k, a.k_stride, task.begin + key, task.kv_head * d, keys.count, d, ld, t.keys);
      transpose(t.keys, keys.count, d, ld, t.keys_across);
      load_keys<T>(a.v, a.v_stride, task.begin + key, task.kv_head * d, keys.count, d, ld, t.values);
      packed = key;
    }
    Ahead ahead;
    if (key + kKeyBlock >= rows.first + rows.count) {
      const int64_t next = std::min(rows.count, task.last - rows.first - rows.count);
      ahead.add<T>(a.q, a.q_stride, token + rows.count, offset, wide, next);
      ahead.add<T>(a.out, a.out_stride, token, offset, wide, rows.count);
    }
    scores(rows, keys, t, d, s.softcap, ahead);
    rows.each([&](int64_t r, int64_t position, int64_t) FORGE_LAMBDA {
      const float keep = softmax_row(score + r * kScoreStride, keys.begin(position), keys.end(position),
                                     key == start, largest[r], total[r]);
      if (key == start || keep == 1) return;
      for (int64_t i = 0; i < up(d); i += kLanes) store(sum + r * ld + i, load(sum + r * ld + i) * set(keep));
    });
    weighted_sum(rows, keys, score, t.values, d, ld, sum, key != start, ahead);
  }
  T* out = at<T>(a.out, a.out_stride, token, offset);
  const int64_t tokens = s.cu_seqlens[s.sequences];
  float* lse = a.lse ? a.lse + task.kv_head * rows.group * tokens + token : nullptr;
  rows.each([&](int64_t r, int64_t position, int64_t head) FORGE_LAMBDA {
    const int64_t i = position - rows.first;
    const float keep = with_sink<T>(s, task.kv_head * rows.group + head, largest[r], total[r]);
    store_row(sum + r * ld, d, keep / total[r], out + i * a.out_stride + head * d);
    if (lse) lse[head * tokens + i] = largest[r] + std::log(total[r]);
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

// Loads q, d_out and the rows' delta and lse for one block.
template <class T>
void load_query_rows(const AttentionBackward& a, const AttentionTask& task, AttentionScratch& t,
                     const Rows& rows) {
  const int64_t d = a.shape.head_dim, ld = t.ld, token = task.begin + rows.first,
                offset = task.kv_head * rows.group * d;
  const F factor = set(a.shape.scale);
  const T* q = at<T>(a.q, a.q_stride, token, offset);
  const T* out = at<T>(a.out, a.out_stride, token, offset);
  const T* d_out = at<T>(a.d_out, a.d_out_stride, token, offset);
  const int64_t tokens = a.shape.cu_seqlens[a.shape.sequences];
  const float* lse = a.lse + task.kv_head * rows.group * tokens + token;
  const int64_t q_stride = a.q_stride, out_stride = a.out_stride, d_out_stride = a.d_out_stride;
  float *to_q = t.q, *to_d_out = t.d_out, *delta = t.delta, *largest = t.largest;
  for (int64_t row = 0; row < rows.count; ++row) {
    for (int64_t head = 0, h = 0; head < rows.group; ++head, h += d) {
      F slope_of_sum = set(0);
      for_lanes(d, [&](int64_t i, int n) FORGE_LAMBDA {
        __builtin_prefetch(later(q, q_stride) + h + i);
        __builtin_prefetch(later(out, out_stride) + h + i);
        __builtin_prefetch(later(d_out, d_out_stride) + h + i);
        const F slope = load_n(d_out + h + i, n);
        store(to_q + i, load_n(q + h + i, n) * factor);
        store(to_d_out + i, slope);
        slope_of_sum = fma(load_n(out + h + i, n), slope, slope_of_sum);
      });
      *delta++ = sum(slope_of_sum);
      *largest++ = lse[head * tokens];
      to_q += ld, to_d_out += ld;
    }
    q += q_stride, out += out_stride, d_out += d_out_stride, ++lse;
  }
}

// Computes score and slope with a cap. bend = 1 − (s / cap)², the slope of the cap, is kept between
// the two products. Taking it from log p would cost a logarithm for each score; the third tile
// takes 55 KB a thread, with a cap only.
void capped_score_gradients(AttentionScratch& t, const Rows& rows, const Keys& keys, int64_t d, float softcap,
                            Ahead& ahead) {
  float *const score = t.score, *const slope = t.slope, *const bend = t.bend;
  const float *const largest = t.largest, *const delta = t.delta;
  products(rows, keys, t.q, d, t.ld, t.keys_across, score, ahead,
           [=](F s, int64_t row, int64_t key) FORGE_LAMBDA {
             const F capped = tanh(s * set(1 / softcap)), one = set(1);
             store(bend + row * kScoreStride + key, (one - capped) * (one + capped));
             return exp_of_weight(capped * set(softcap) - set(largest[row]));
           });
  products(rows, keys, t.d_out, d, t.ld, t.values_across, slope, ahead,
           [=](F d_p, int64_t row, int64_t key) FORGE_LAMBDA {
             const int64_t at = row * kScoreStride + key;
             return load(score + at) * load(bend + at) * (d_p - set(delta[row]));
           });
}

// Computes score = p and slope = d s, with zeros around the keys that a row sees.
void score_gradients(AttentionScratch& t, const Rows& rows, const Keys& keys, int64_t d, float softcap,
                     Ahead& ahead) {
  float *const score = t.score, *const slope = t.slope;
  const float *const largest = t.largest, *const delta = t.delta;
  if (softcap != 0) {
    capped_score_gradients(t, rows, keys, d, softcap, ahead);
  } else {
    products(rows, keys, t.q, d, t.ld, t.keys_across, score, ahead,
             [=](F s, int64_t row, int64_t) FORGE_LAMBDA { return exp_of_weight(s - set(largest[row])); });
    products(rows, keys, t.d_out, d, t.ld, t.values_across, slope, ahead,
             [=](F d_p, int64_t row, int64_t key)
                 FORGE_LAMBDA { return load(score + row * kScoreStride + key) * (d_p - set(delta[row])); });
  }
  rows.each([&](int64_t r, int64_t position, int64_t) FORGE_LAMBDA {
    const int64_t begin = keys.begin(position), end = keys.end(position);
    for (float* row : {score + r * kScoreStride, slope + r * kScoreStride}) {
      zero_behind(row, end);
      if (begin > 0) fill_before(row, begin, 0);
    }
  });
}

template <class T>
void store_key_rows(const float* from, int64_t ld, void* base, int64_t stride, int64_t token, int64_t offset,
                    int64_t count, int64_t d) {
  for (int64_t j = 0; j < count; ++j)
    store_row(from + j * ld, d, 1.0f, at<T>(base, stride, token + j, offset));
}

template <class T>
void store_query_gradient(const AttentionBackward& a, const AttentionTask& task, const AttentionScratch& t,
                          const Rows& rows) {
  const int64_t d = a.shape.head_dim;
  const float* from = t.sum;
  T* d_q = at<T>(a.d_q, a.d_q_stride, task.begin + rows.first, task.kv_head * rows.group * d);
  for (int64_t i = 0; i < rows.count; ++i, d_q += a.d_q_stride)
    for (int64_t head = 0; head < rows.group; ++head, from += t.ld)
      store_row(from, d, a.shape.scale, d_q + head * d);
}

// d += scoreᵀ · right over the rows that see a key: the left factor is read transposed. [keys, d]
void gather_keys(const Rows& rows, const Keys& keys, const float* score, const float* right, int64_t d,
                 int64_t ld, float* sum, Ahead& ahead) {
  const int64_t seen = keys.end(rows.first + rows.count - 1);
  for (int64_t key = keys.begin(rows.first); key < seen; key += kRowStep) {
    const int64_t m = std::min(kRowStep, seen - key), first = keys.first + key - rows.first,
                  row = std::max<int64_t>(0, first) * rows.group,
                  end = std::min(rows.count, first + m - 1 + keys.window) * rows.group;
    ahead.some();
    if (row < end)
      gemm(m, up(d), end - row, score + row * kScoreStride + key, 1, kScoreStride, right + row * ld, ld,
           sum + key * ld, ld, true);
  }
}
void gather_keys(AttentionScratch& t, const Rows& rows, const Keys& keys, int64_t d, Ahead& ahead) {
  gather_keys(rows, keys, t.slope, t.q, d, t.ld, t.d_keys, ahead);
  gather_keys(rows, keys, t.score, t.d_out, d, t.ld, t.d_values, ahead);
}

// Computes the queries [task.first, task.last) against all their keys. A sequence of one block
// yields d k and d v in the same pass.
template <class T>
void backward_queries(const AttentionBackward& a, const AttentionTask& task, AttentionScratch& t) {
  int64_t d = a.shape.head_dim, group = a.shape.heads / a.shape.kv_heads, step = query_block(a.shape);
  bool both = task.pass == AttentionPass::both;
  int64_t packed = -1;
  const int64_t window = window_of(a.shape);
  for (int64_t first = task.first; first < task.last; first += step) {
    Rows rows{first, std::min(step, task.last - first), group};
    load_query_rows<T>(a, task, t, rows);
    const int64_t start = first_block(rows, window);
    for (int64_t key = start; key < rows.first + rows.count; key += kKeyBlock) {
      const Keys keys{key, std::min(kKeyBlock, task.length - key), window};
      if (packed != key) load_key_block<T>(a, task, t, key, keys.count);
      packed = key;
      Ahead ahead;
      if (key + kKeyBlock >= rows.first + rows.count) {
        const int64_t token = task.begin + first, wide = group * d, offset = task.kv_head * wide,
                      next = std::min(rows.count, task.last - first - rows.count);
        ahead.add<T>(a.d_out, a.d_out_stride, token + rows.count, offset, wide, next);
        ahead.add<T>(a.out, a.out_stride, token + rows.count, offset, wide, next);
        ahead.add<T>(a.q, a.q_stride, token + rows.count, offset, wide, next);
        ahead.add<T>(a.d_q, a.d_q_stride, token, offset, wide, rows.count);
      }
      score_gradients(t, rows, keys, d, a.shape.softcap, ahead);
      weighted_sum(rows, keys, t.slope, t.keys, d, t.ld, t.sum, key != start, ahead);
      if (both) gather_keys(t, rows, keys, d, ahead);
    }
    store_query_gradient<T>(a, task, t, rows);
  }
}

template <class T>
void backward(const AttentionBackward& a, const AttentionTask& task, AttentionScratch& t) {
  const int64_t d = a.shape.head_dim, keys = task.last - task.first, window = window_of(a.shape);
  if (task.pass != AttentionPass::queries) {
    std::fill(t.d_keys, t.d_keys + keys * t.ld, 0.0f);
    std::fill(t.d_values, t.d_values + keys * t.ld, 0.0f);
  }
  if (task.pass != AttentionPass::keys) backward_queries<T>(a, task, t);
  if (task.pass == AttentionPass::queries) return;
  if (task.pass == AttentionPass::keys) {
    int64_t group = a.shape.heads / a.shape.kv_heads, step = query_block(a.shape);
    load_key_block<T>(a, task, t, task.first, keys);
    const int64_t end = std::min(task.length, task.last - 1 + window);
    for (int64_t first = task.first; first < end; first += step) {
      Rows rows{first, std::min(step, end - first), group};
      load_query_rows<T>(a, task, t, rows);
      Ahead ahead;
      const Keys block{task.first, keys, window};
      score_gradients(t, rows, block, d, a.shape.softcap, ahead);
      gather_keys(t, rows, block, d, ahead);
    }
  }
  // q was scaled when it was loaded, so d k already is.
  store_key_rows<T>(t.d_keys, t.ld, a.d_k, a.d_k_stride, task.begin + task.first, task.kv_head * d, keys, d);
  store_key_rows<T>(t.d_values, t.ld, a.d_v, a.d_v_stride, task.begin + task.first, task.kv_head * d, keys,
                    d);
}

// Computes d of one head's sink. It adds tokens in their order, so the number of threads changes
// nothing.
template <class T>
void sink_gradient(const AttentionBackward& a, int64_t head) {
  const int64_t d = a.shape.head_dim, tokens = a.shape.cu_seqlens[a.shape.sequences];
  const float sink = to_float(static_cast<const T*>(a.shape.sinks)[head]);
  double total = 0;
  for (int64_t token = 0; token < tokens; ++token) {
    const T *out = at<T>(a.out, a.out_stride, token, head * d),
            *d_out = at<T>(a.d_out, a.d_out_stride, token, head * d);
    F dot = set(0);
    for_lanes(
        d, [&](int64_t i, int n) FORGE_LAMBDA { dot = fma(load_n(out + i, n), load_n(d_out + i, n), dot); });
    total += std::exp(sink - a.lse[head * tokens + token]) * sum(dot);
  }
  a.d_sinks[head] -= static_cast<float>(total);
}

}  // namespace flash

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
  // The key heads of a sequence are side by side in memory: one thread takes them all if there are
  // enough sequences for all threads.
  const AttentionShape& s = args.shape;
  const int64_t together = s.sequences >= 4 * task_threads() ? std::max<int64_t>(1, s.kv_heads) : 1;
  parallel_tasks(
      count_tasks(s, backward),
      [&](int64_t index, int64_t thread) {
        int64_t unused;
        AttentionScratch scratch = attention_scratch(s, base + thread * floats, &unused);
        task(args, task_at(s, backward, index), scratch);
      },
      together);
}

}  // namespace

int64_t attention_forward_cpu_workspace(const AttentionForward& args) {
  return attention_tiles_workspace(args.shape, task_threads());
}
int64_t attention_backward_cpu_workspace(const AttentionBackward& args) {
  return attention_tiles_workspace(args.shape, task_threads());
}

void attention_forward_cpu(const AttentionForward& args, CpuLevel level) {
  run(args, false, FORGE_PICK_OF(level, args.shape.type, flash::forward));
}
void attention_backward_cpu(const AttentionBackward& args, CpuLevel level) {
  run(args, true, FORGE_PICK_OF(level, args.shape.type, flash::backward));
  if (!args.shape.sinks || !args.d_sinks) return;
  auto sink = FORGE_PICK_OF(level, args.shape.type, flash::sink_gradient);
  parallel_ranges(args.shape.heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head) sink(args, head);
  });
}

}  // namespace forge

#endif
