// The delta rule by chunks of 64 tokens, as products of tiles (Yang et al., "Parallelizing linear
// transformers with the delta rule", 2024). With S at a chunk's begin, G the running sum of g in
// it, L its last one, and D_ij = e^{G_i − G_j}:
//
//   R_i  = β_i (v_i − e^{G_i} k̂_i S)
//   X    = (I + A)⁻¹ R,  A_ij = β_i (k̂_i · k̂_j) D_ij below the diagonal: what each token writes
//   y_i  = e^{G_i} q̂_i S + Σ_{j ≤ i} P_ij X_j,  P_ij = (q̂_i · k̂_j) D_ij
//   S'   = e^L S + Σ_j e^{L − G_j} k̂_j ⊗ X_j
//
// One solution serves R as a whole, where the usual form solves for v and for k̂ apart: X needs S,
// which a task has, since it goes through its text in order. The backward keeps nothing of the
// forward: it makes the states at all chunks' begins again, then goes back over the chunks with
//
//   d X  = Pᵀ d y + e^{L − G} k̂ d S',  d R = (I + A)⁻ᵀ d X,  d A = −d R Xᵀ,  d P = d y Xᵀ
//   d S  = e^L d S' + Σ_i e^{G_i} q̂_i ⊗ d y_i − Σ_i β_i e^{G_i} k̂_i ⊗ d R_i
//
// and the gradients of q̂, k̂, v, β and G that follow from these formulas. G is summed in fp64: its
// differences are what counts, and it may be some thousands.
//
// A state space has X_i = β_i v_i, and neither A nor k̂ S.
#ifdef FORGE_ISA
#include "kernels/cpu/gemm.h"
#include "kernels/delta_rule/delta_rule_chunk.h"

namespace forge::FORGE_ISA {
namespace delta {

// read = q̂ S, then k̂ S; or k̂ S alone in its place.
void read_state(const Chunk& c, const DeltaRuleShape& s, const float* state, bool keys_only,
                DeltaScratch& t) {
  if (keys_only && !s.erases) return;
  const int64_t skip = keys_only ? c.count : 0;
  gemm((s.erases ? 2 : 1) * c.count - skip, up(s.value_dim), s.key_dim, t.qk + skip * t.key_ld, t.key_ld, 1, state,
       t.value_ld, t.read + skip * t.value_ld, t.value_ld, false);
}

// x = X, of k̂ S and v.
template <class T, class Args>
void make_x(const Args& a, const Chunk& c, int64_t head, const Gates& g, DeltaScratch& t) {
  const int64_t d = a.shape.value_dim, ld = t.value_ld;
  const float* of_state = t.read + c.count * ld;
  for (int64_t i = 0; i < c.count; ++i) {
    load_row(row_at<T>(a.v, a.v_stride, c.first + i, head * d), d, 1.0f, t.v + i * ld);
    if (!a.shape.erases) {
      load_row(t.v + i * ld, up(d), g.beta[i], t.x + i * ld);
      continue;
    }
    for (int64_t j = 0; j < up(d); j += kLanes)
      store(t.x + i * ld + j, set(g.beta[i]) * fma(set(-g.since[i]), load(of_state + i * ld + j),
                                                   load(t.v + i * ld + j)));
  }
  if (a.shape.erases) solve_forward(t.solve, ld, c.count, d, t.x);
}

// Returns what a state space's head passes v on with.
template <class T>
float skip_of(const void* skip, int64_t head) {
  return skip ? to_float(static_cast<const T*>(skip)[head]) : 0;
}

// to = e^L from + Σ_j e^{L − G_j} k̂_j ⊗ X_j, with e^{L − G} X left in x. `from` may be `to`.
void advance(const Chunk& c, const DeltaRuleShape& s, const Gates& g, const float* from, float* to,
             DeltaScratch& t) {
  const int64_t ld = t.value_ld, d = up(s.value_dim);
  for (int64_t i = 0; i < c.count; ++i) scale_row(t.x + i * ld, d, g.left[i]);
  for (int64_t i = 0; i < s.key_dim; ++i)
    for (int64_t j = 0; j < d; j += kLanes)
      store(to + i * ld + j, load(from + i * ld + j) * set(g.whole));
  gemm(s.key_dim, d, c.count, t.qk + c.count * t.key_ld, 1, t.key_ld, t.x, ld, to, ld, true);
}

template <class T>
void forward_head(const DeltaRuleForward& a, const Chunk& c, int64_t head, float* state,
                  DeltaScratch& t) {
  const DeltaRuleShape& s = a.shape;
  const int64_t d = s.value_dim, ld = t.value_ld;
  Gates g;
  load_gates(a.gates, a.gates_stride, s, c, head, g);
  make_triangles(c, s, g, t);
  read_state(c, s, state, false, t);
  make_x<T>(a, c, head, g, t);
  const float skip = skip_of<T>(a.skip, head);
  for (int64_t i = 0; i < c.count; ++i) scale_row(t.read + i * ld, up(d), g.since[i]);
  add_lower(t.mix, t.x, ld, c.count, d, t.read);
  for (int64_t i = 0; i < c.count; ++i) {
    T* y = row_at<T>(a.y, a.y_stride, c.first + i, head * d);
    float* from = t.read + i * ld;
    if (a.skip) add_row(t.v + i * ld, skip, up(d), from);
    for_lanes(d, [&](int64_t j, int n) FORGE_LAMBDA { store_n(y + j, load(from + j), n); });
  }
  advance(c, s, g, state, state, t);
}

template <class T>
void forward(const DeltaRuleForward& a, const DeltaTask& task, char* kept, DeltaScratch& t) {
  const DeltaRuleShape& s = a.shape;
  const int64_t heads = value_heads_of_group(s), floats = t.state_floats();
  std::fill_n(t.states, heads * floats, 0.0f);
  for (int64_t first = 0; first < task.tokens; first += kDeltaChunk) {
    Chunk c{.first = task.begin + first, .count = std::min(kDeltaChunk, task.tokens - first)};
    load_chunk<T>(a, task.head, c, t);
    make_scores(c, s, t);
    for (int64_t i = 0; i < heads; ++i)
      forward_head<T>(a, c, task.head * heads + i, t.states + i * floats, t);
  }
  for (int64_t i = 0; kept && i < heads; ++i)
    for (int64_t row = 0; row < s.key_dim; ++row)
      std::copy_n(t.states + i * floats + row * t.value_ld, s.value_dim,
                  reinterpret_cast<float*>(kept) +
                      ((task.head * heads + i) * s.key_dim + row) * s.value_dim);
}

// Loads q and k of one token.
template <class T>
void load_one(const DeltaRuleForward& a, Chunk& c, int64_t column, float* q, float* k, int64_t ld) {
  const int64_t d = a.shape.key_dim;
  if (!a.shape.erases) {
    load_plain<T>(a.q, a.q_stride, c, column, d, q, ld);
    return load_plain<T>(a.k, a.k_stride, c, column, d, k, ld);
  }
  load_normed<T>(a.q, a.q_stride, c, column, d, 1 / std::sqrt(static_cast<float>(d)), q, ld, c.q_norm);
  load_normed<T>(a.k, a.k_stride, c, column, d, 1.0f, k, ld, c.k_norm);
}

// One head of v, token by token, from its state on.
template <class T>
void recur(const DeltaRuleForward& a, const DeltaTask& task, int64_t head, char* kept,
           DeltaScratch& t) {
  const DeltaRuleShape& s = a.shape;
  const int64_t d = s.value_dim, keys = s.key_dim, of_k = head / value_heads_of_group(s) * keys;
  float* const state = reinterpret_cast<float*>(kept) + head * keys * d;
  float *const q = t.qk, *const k = t.qk + t.key_ld, *const seen = t.read, *const write = t.x;
  const float skip = skip_of<T>(a.skip, head);
  for (int64_t token = task.begin; token < task.begin + task.tokens; ++token) {
    Chunk c{.first = token, .count = 1};
    load_one<T>(a, c, of_k, q, k, t.key_ld);
    const float* gates = a.gates + token * a.gates_stride;
    const float decay = std::exp(gates[head]), beta = gates[s.value_heads + head];
    const T* v = row_at<T>(a.v, a.v_stride, token, head * d);
    T* y = row_at<T>(a.y, a.y_stride, token, head * d);
    std::fill_n(seen, up(d), 0.0f);
    for (int64_t i = 0; s.erases && i < keys; ++i)
      for_lanes(d, [&](int64_t j, int n) FORGE_LAMBDA {
        store(seen + j, fma(set(k[i]), load_n(state + i * d + j, n), load(seen + j)));
      });
    for_lanes(d, [&](int64_t j, int n) FORGE_LAMBDA {
      store(write + j, set(beta) * fma(set(-decay), load(seen + j), load_n(v + j, n)));
      store(seen + j, set(skip) * load_n(v + j, n));
    });
    for (int64_t i = 0; i < keys; ++i)
      for_lanes(d, [&](int64_t j, int n) FORGE_LAMBDA {
        const F now = fma(set(k[i]), load(write + j), set(decay) * load_n(state + i * d + j, n));
        store_n(state + i * d + j, now, n);
        store(seen + j, fma(set(q[i]), now, load(seen + j)));
      });
    for_lanes(d, [&](int64_t j, int n) FORGE_LAMBDA { store_n(y + j, load(seen + j), n); });
  }
}

// ---- backward

// Makes the states at the begin of every chunk: states [chunks, heads].
template <class T>
void make_states(const DeltaRuleBackward& a, const DeltaTask& task, DeltaScratch& t) {
  const DeltaRuleShape& s = a.shape;
  const int64_t heads = value_heads_of_group(s), floats = t.state_floats();
  std::fill_n(t.states, heads * floats, 0.0f);
  for (int64_t first = 0; first + kDeltaChunk < task.tokens; first += kDeltaChunk) {
    Chunk c{.first = task.begin + first, .count = kDeltaChunk};
    load_chunk<T>(a, task.head, c, t);
    if (s.erases) make_scores(c, s, t);
    float* states = t.states + first / kDeltaChunk * heads * floats;
    for (int64_t i = 0; i < heads; ++i, states += floats) {
      Gates g;
      load_gates(a.gates, a.gates_stride, s, c, task.head * heads + i, g);
      if (s.erases) make_triangles(c, s, g, t);
      read_state(c, s, states, true, t);
      make_x<T>(a, c, task.head * heads + i, g, t);
      advance(c, s, g, states, states + heads * floats, t);
    }
  }
}

// d = d y, then d R.
template <class T>
void make_d_r(const DeltaRuleBackward& a, const Chunk& c, int64_t head, const Gates& g,
              const float* d_state, DeltaScratch& t) {
  const DeltaRuleShape& s = a.shape;
  const int64_t d = s.value_dim, ld = t.value_ld;
  float *const d_y = t.d, *const d_x = t.d + c.count * ld;
  for (int64_t i = 0; i < c.count; ++i)
    load_row(row_at<T>(a.d_y, a.d_y_stride, c.first + i, head * d), d, 1.0f, d_y + i * ld);
  gemm(c.count, up(d), s.key_dim, t.qk + c.count * t.key_ld, t.key_ld, 1, d_state, ld, t.pushed, ld,
       false);
  add_lower_turned(t.mix, d_y, ld, c.count, d, d_x, false);
  for (int64_t i = 0; i < c.count; ++i) add_row(t.pushed + i * ld, g.left[i], up(d), d_x + i * ld);
  if (s.erases) solve_backward(t.solve, ld, c.count, d, d_x);
}

// Makes of d P and d A what they are in q̂ and k̂ (mix and solve), and adds to d G and d β. A pair
// of tokens adds to one d G what it takes from the other: the sums are in fp64, so that what two
// tokens of the same g give each other vanishes from it as in the formula.
void make_d_triangles(const Chunk& c, const DeltaRuleShape& s, const Gates& g, double* d_sum,
                      float* d_beta, DeltaScratch& t) {
  transpose(t.x, t.value_ld, c.count, s.value_dim, t.x_across, kDeltaStride);
  gemm((s.erases ? 2 : 1) * c.count, up(c.count), s.value_dim, t.d, t.value_ld, 1, t.x_across, kDeltaStride,
       t.d_scores, kDeltaStride, false);
  alignas(64) float pairs[kDeltaStride];
  for (int64_t i = 0; i < c.count; ++i) {
    const int64_t at = i * kDeltaStride, below = (c.count + i) * kDeltaStride;
    F of_solve = set(0);
    for_lanes(c.count, [&](int64_t j, int n) FORGE_LAMBDA {
      const F decay = load_n(t.decay + at + j, n), zero = set(0);
      const F mix = keep_until(load_n(t.d_scores + at + j, n) * decay, i + 1 - j, zero);
      store_n(t.mix + at + j, mix, n);
      if (!s.erases) return store(pairs + j, keep_until(mix * load_n(t.scores + at + j, n), i - j, zero));
      const F solve = keep_until(zero - load_n(t.d_scores + below + j, n) * decay, i - j, zero);
      const F from_q = keep_until(mix * load_n(t.scores + at + j, n), i - j, zero);
      const F from_k = keep_until(solve * load_n(t.scores + below + j, n), i - j, zero);
      store_n(t.solve + at + j, solve * set(g.beta[i]), n);
      store(pairs + j, fma(from_k, set(g.beta[i]), from_q));
      of_solve = of_solve + from_k;
    });
    d_beta[i] += sum(of_solve);
    for (int64_t j = 0; j < i; ++j) d_sum[i] += pairs[j], d_sum[j] -= pairs[j];
  }
}

// Writes d v, adds to d G and d β, and turns d y and d R into what S is multiplied with.
template <class T>
void finish_rows(const DeltaRuleBackward& a, const Chunk& c, int64_t head, const Gates& g,
                 double* d_sum, float* d_beta, DeltaScratch& t) {
  const int64_t d = a.shape.value_dim, ld = t.value_ld;
  const float skip = skip_of<T>(a.skip, head);
  for (int64_t i = 0; i < c.count; ++i) {
    float *d_y = t.d + i * ld, *d_r = t.d + (c.count + i) * ld;
    const float *of_q = t.read + i * ld, *of_k = t.read + (c.count + i) * ld, *v = t.v + i * ld;
    const float by_q = dot(of_q, d_y, d), by_k = a.shape.erases ? dot(of_k, d_r, d) : 0;
    d_beta[i] += dot(v, d_r, d) - g.since[i] * by_k;
    d_sum[i] += g.since[i] * (by_q - g.beta[i] * by_k);
    T* d_v = row_at<T>(a.d_v, a.d_v_stride, c.first + i, head * d);
    for_lanes(d, [&](int64_t j, int n) FORGE_LAMBDA {
      store_n(d_v + j, fma(load(d_r + j), set(g.beta[i]), set(skip) * load(d_y + j)), n);
    });
    scale_row(d_y, up(d), g.since[i]);
    if (a.shape.erases) scale_row(d_r, up(d), -g.since[i] * g.beta[i]);
  }
}

// Adds a head's part to d q̂ and d k̂, or writes the first one's. x becomes e^{L − G} X.
void add_d_qk(const Chunk& c, const DeltaRuleShape& s, const Gates& g, const float* state,
              const float* d_state, bool add, DeltaScratch& t) {
  const int64_t d = s.value_dim, keys = s.key_dim, ld = t.key_ld;
  float *const of_q = t.d_qk, *const of_k = t.d_qk + c.count * ld;
  const float *const q = t.qk, *const k = t.qk + c.count * ld;
  transpose(state, t.value_ld, keys, d, t.turned, ld);
  gemm((s.erases ? 2 : 1) * c.count, up(keys), d, t.d, t.value_ld, 1, t.turned, ld, t.d_qk, ld, add);
  add_lower(t.mix, k, ld, c.count, keys, of_q);
  add_lower_turned(t.mix, q, ld, c.count, keys, of_k, s.erases || add);
  if (s.erases) {
    add_lower(t.solve, k, ld, c.count, keys, of_k);
    add_lower_turned(t.solve, k, ld, c.count, keys, of_k, true);
  }
  for (int64_t i = 0; i < c.count; ++i) scale_row(t.x + i * t.value_ld, up(d), g.left[i]);
  transpose(d_state, t.value_ld, keys, d, t.turned, ld);
  gemm(c.count, up(keys), d, t.x, t.value_ld, 1, t.turned, ld, of_k, ld, true);
}

// Adds to d G what the chunk's end passes back; x is e^{L − G} X. Then d S' becomes d S.
void pass_back(const Chunk& c, const DeltaRuleShape& s, const Gates& g, const float* state,
               float* d_state, double* d_sum, DeltaScratch& t) {
  const int64_t d = s.value_dim, ld = t.value_ld;
  double last = 0;
  for (int64_t i = 0; i < s.key_dim; ++i) last += dot(state + i * ld, d_state + i * ld, d);
  last *= g.whole;
  for (int64_t i = 0; i < c.count; ++i) {
    const float written = dot(t.x + i * ld, t.pushed + i * ld, d);
    d_sum[i] -= written, last += written;
  }
  d_sum[c.count - 1] += last;
  for (int64_t i = 0; i < s.key_dim; ++i) scale_row(d_state + i * ld, up(d), g.whole);
  gemm(s.key_dim, up(d), (s.erases ? 2 : 1) * c.count, t.qk, 1, t.key_ld, t.d, ld, d_state, ld, true);
}

template <class T>
void backward_head(const DeltaRuleBackward& a, const Chunk& c, int64_t head, bool first,
                   const float* state, float* d_state, DeltaScratch& t) {
  const DeltaRuleShape& s = a.shape;
  Gates g;
  double d_sum[kDeltaChunk] = {};
  float d_beta[kDeltaChunk] = {};
  load_gates(a.gates, a.gates_stride, s, c, head, g);
  make_triangles(c, s, g, t);
  read_state(c, s, state, false, t);
  make_x<T>(a, c, head, g, t);
  make_d_r<T>(a, c, head, g, d_state, t);
  make_d_triangles(c, s, g, d_sum, d_beta, t);
  finish_rows<T>(a, c, head, g, d_sum, d_beta, t);
  add_d_qk(c, s, g, state, d_state, !first, t);
  pass_back(c, s, g, state, d_state, d_sum, t);
  double later = 0;
  for (int64_t i = c.count; i-- > 0;) {
    float* row = a.d_gates + (c.first + i) * a.d_gates_stride;
    row[head] = static_cast<float>(later += d_sum[i]);
    row[s.value_heads + head] = d_beta[i];
  }
}

// d x = norm (d x̂ − x̂ (d x̂ · x̂) / factor²), where x̂ = norm x and ‖x̂‖ ≈ factor.
template <class T>
void store_normed(const float* d, const float* normed, int64_t ld, const float* norm, float factor,
                  int64_t width, const Chunk& c, int64_t column, void* base, int64_t stride) {
  for (int64_t i = 0; i < c.count; ++i) {
    const float *row = d + i * ld, *x = normed + i * ld,
                along = dot(row, x, width) / (factor * factor);
    T* to = row_at<T>(base, stride, c.first + i, column);
    for_lanes(width, [&](int64_t j, int n) FORGE_LAMBDA {
      store_n(to + j, set(norm[i]) * fma(load(x + j), set(-along), load(row + j)), n);
    });
  }
}

template <class T>
void store_plain(const float* d, int64_t ld, int64_t width, const Chunk& c, int64_t column, void* base, int64_t stride) {
  for (int64_t i = 0; i < c.count; ++i) {
    T* to = row_at<T>(base, stride, c.first + i, column);
    for_lanes(width, [&](int64_t j, int n) FORGE_LAMBDA { store_n(to + j, load(d + i * ld + j), n); });
  }
}

// Adds a head's d skip, token after token, whatever the threads.
template <class T>
void sum_skip(const DeltaRuleBackward& a, int64_t head) {
  const DeltaRuleShape& s = a.shape;
  double total = 0;
  for (int64_t token = s.cu_seqlens[0]; token < s.cu_seqlens[s.sequences]; ++token) {
    const T *v = row_at<T>(a.v, a.v_stride, token, head * s.value_dim), *d_y = row_at<T>(a.d_y, a.d_y_stride, token, head * s.value_dim);
    F sums = set(0);
    for_lanes(s.value_dim, [&](int64_t j, int n) FORGE_LAMBDA { sums = fma(load_n(v + j, n), load_n(d_y + j, n), sums); });
    total += sum(sums);
  }
  a.d_skip[head] += static_cast<float>(total);
}

template <class T>
void backward(const DeltaRuleBackward& a, const DeltaTask& task, char*, DeltaScratch& t) {
  const DeltaRuleShape& s = a.shape;
  const int64_t heads = value_heads_of_group(s), floats = t.state_floats(), d = s.key_dim;
  make_states<T>(a, task, t);
  std::fill_n(t.d_states, heads * floats, 0.0f);
  for (int64_t chunk = delta_chunks(task.tokens); chunk-- > 0;) {
    const int64_t first = chunk * kDeltaChunk;
    Chunk c{.first = task.begin + first, .count = std::min(kDeltaChunk, task.tokens - first)};
    load_chunk<T>(a, task.head, c, t);
    make_scores(c, s, t);
    for (int64_t i = 0; i < heads; ++i)
      backward_head<T>(a, c, task.head * heads + i, i == 0, t.states + (chunk * heads + i) * floats,
                       t.d_states + i * floats, t);
    if (!s.erases) {
      store_plain<T>(t.d_qk, t.key_ld, d, c, task.head * d, a.d_q, a.d_q_stride);
      store_plain<T>(t.d_qk + c.count * t.key_ld, t.key_ld, d, c, task.head * d, a.d_k, a.d_k_stride);
      continue;
    }
    store_normed<T>(t.d_qk, t.qk, t.key_ld, c.q_norm, 1 / std::sqrt(static_cast<float>(d)), d, c,
                    task.head * d, a.d_q, a.d_q_stride);
    store_normed<T>(t.d_qk + c.count * t.key_ld, t.qk + c.count * t.key_ld, t.key_ld, c.k_norm,
                    1.0f, d, c, task.head * d, a.d_k, a.d_k_stride);
  }
}

}  // namespace delta

}  // namespace forge::FORGE_ISA

#else

#include "kernels/cpu/parallel.h"
#include "kernels/delta_rule/delta_rule_tiles.h"
#define FORGE_KERNEL_FILE "kernels/delta_rule/delta_rule_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {
namespace {

// Runs `heads` tasks for each text, each in its thread's part of the workspace.
template <class Args, class Work>
void run(const Args& a, int64_t heads, bool backward, Work work) {
  const DeltaRuleShape& s = a.shape;
  const int64_t chunks = delta_chunks(s.tokens);
  int64_t floats = 0;
  delta_scratch(s, chunks, backward, nullptr, &floats);
  float* base = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(a.workspace) + 63) / 64 * 64);
  parallel_tasks(s.sequences * heads, [&](int64_t index, int64_t thread) {
    int64_t unused;
    DeltaScratch t = delta_scratch(s, chunks, backward, base + thread * floats, &unused);
    const int64_t text = index / heads, begin = s.cu_seqlens[text];
    work(text, DeltaTask{begin, s.cu_seqlens[text + 1] - begin, index % heads}, t);
  });
}

}  // namespace

int64_t delta_rule_forward_cpu_workspace(const DeltaRuleForward& args) {
  return delta_rule_workspace(args.shape, false, task_threads());
}
int64_t delta_rule_backward_cpu_workspace(const DeltaRuleBackward& args) {
  return delta_rule_workspace(args.shape, true, task_threads());
}

void delta_rule_forward_cpu(const DeltaRuleForward& args, CpuLevel level) {
  const DeltaRuleShape& s = args.shape;
  const auto state = [&](int64_t text) { return args.states ? args.states[text] : nullptr; };
  if (args.begins)
    return run(args, s.key_heads, false,
               [&, chunks = FORGE_PICK_OF(level, s.type, delta::forward)](
                   int64_t text, const DeltaTask& task, DeltaScratch& t) {
                 chunks(args, task, state(text), t);
               });
  run(args, s.value_heads, false,
      [&, recur = FORGE_PICK_OF(level, s.type, delta::recur)](int64_t text, const DeltaTask& task,
                                                              DeltaScratch& t) {
        recur(args, task, task.head, state(text), t);
      });
}

void delta_rule_backward_cpu(const DeltaRuleBackward& args, CpuLevel level) {
  if (args.d_skip)
    parallel_tasks(args.shape.value_heads, [&, sum = FORGE_PICK_OF(level, args.shape.type, delta::sum_skip)](int64_t head, int64_t) { sum(args, head); });
  run(args, args.shape.key_heads, true,
      [&, chunks = FORGE_PICK_OF(level, args.shape.type, delta::backward)](
          int64_t, const DeltaTask& task, DeltaScratch& t) { chunks(args, task, nullptr, t); });
}

}  // namespace forge

#endif
