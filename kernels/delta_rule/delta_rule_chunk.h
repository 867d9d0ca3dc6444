// A chunk of the delta rule on its way between a caller's memory and a thread's scratch, in fp32,
// and its triangular products. Included by the FORGE_ISA part of delta_rule_cpu.cpp, once per
// instruction set, after gemm.h: no include guard.
namespace forge::FORGE_ISA {
namespace delta {

constexpr int64_t kRowStep = 2 * kTileRows;  // rows of a triangle that are multiplied together

FORGE_INLINE int64_t up(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

template <class T>
const T* row_at(const void* base, int64_t stride, int64_t token, int64_t column) {
  return static_cast<const T*>(base) + token * stride + column;
}
template <class T>
T* row_at(void* base, int64_t stride, int64_t token, int64_t column) {
  return static_cast<T*>(base) + token * stride + column;
}

// to[:d] = from · factor; lanes past d become zero.
template <class T>
FORGE_INLINE void load_row(const T* from, int64_t d, float factor, float* to) {
  for_lanes(
      d, [&](int64_t i, int n) FORGE_LAMBDA { store(to + i, load_n(from + i, n) * set(factor)); });
}
FORGE_INLINE void scale_row(float* row, int64_t d, float factor) {
  for (int64_t i = 0; i < d; i += kLanes) store(row + i, load(row + i) * set(factor));
}
FORGE_INLINE void add_row(const float* from, float factor, int64_t d, float* to) {
  for (int64_t i = 0; i < d; i += kLanes)
    store(to + i, fma(load(from + i), set(factor), load(to + i)));
}
// Returns x with `other` from lane n on, which may be before the first or past the last.
FORGE_INLINE F keep_until(F x, int64_t n, F other) {
  return keep_first(x, std::clamp<int64_t>(n, 0, kLanes), other);
}
// Returns a · b; lanes past d count nothing.
FORGE_INLINE float dot(const float* a, const float* b, int64_t d) {
  F total = set(0);
  for_lanes(d, [&](int64_t i, int n)
                   FORGE_LAMBDA { total = fma(load_n(a + i, n), load_n(b + i, n), total); });
  return sum(total);
}

// A chunk of a task: its tokens, and what all heads of v share.
struct Chunk {
  int64_t first, count;                            // tokens of the micro-batch
  float q_norm[kDeltaChunk], k_norm[kDeltaChunk];  // what q and k were multiplied with
};

// Normalises the rows of a head: to = from · factor / √(‖from‖² + ε); norm: what from was
// multiplied with.
template <class T>
void load_normed(const void* base, int64_t stride, const Chunk& c, int64_t column, int64_t d,
                 float factor, float* to, int64_t ld, float* norm) {
  for (int64_t i = 0; i < c.count; ++i, to += ld) {
    load_row(row_at<T>(base, stride, c.first + i, column), d, 1.0f, to);
    norm[i] = factor / std::sqrt(dot(to, to, d) + kDeltaEps);
    scale_row(to, up(d), norm[i]);
  }
}

// Loads the rows of a state space's head as they are.
template <class T>
void load_plain(const void* base, int64_t stride, const Chunk& c, int64_t column, int64_t d, float* to, int64_t ld) {
  for (int64_t i = 0; i < c.count; ++i) load_row(row_at<T>(base, stride, c.first + i, column), d, 1.0f, to + i * ld);
}

template <class T, class Args>
void load_chunk(const Args& a, int64_t head, Chunk& c, DeltaScratch& t) {
  const int64_t d = a.shape.key_dim, column = head * d;
  float* const keys = t.qk + c.count * t.key_ld;
  if (!a.shape.erases) {
    load_plain<T>(a.q, a.q_stride, c, column, d, t.qk, t.key_ld);
    load_plain<T>(a.k, a.k_stride, c, column, d, keys, t.key_ld);
    return transpose(keys, t.key_ld, c.count, d, t.across, kDeltaStride);
  }
  load_normed<T>(a.q, a.q_stride, c, column, d, 1 / std::sqrt(static_cast<float>(d)), t.qk,
                 t.key_ld, c.q_norm);
  load_normed<T>(a.k, a.k_stride, c, column, d, 1.0f, keys, t.key_ld, c.k_norm);
  transpose(keys, t.key_ld, c.count, d, t.across, kDeltaStride);
}

void make_scores(const Chunk& c, const DeltaRuleShape& s, DeltaScratch& t) {
  gemm((s.erases ? 2 : 1) * c.count, up(c.count), s.key_dim, t.qk, t.key_ld, 1, t.across, kDeltaStride, t.scores,
       kDeltaStride, false);
}

// The gates of one head of v in a chunk.
struct Gates {
  double sum[kDeltaChunk];  // G
  float beta[kDeltaChunk];
  float since[kDeltaChunk];  // e^{G_i}: from the chunk's begin to the token
  float left[kDeltaChunk];   // e^{L − G_i}: from the token to the chunk's end
  float whole;               // e^L
};

FORGE_INLINE void load_gates(const float* gates, int64_t stride, const DeltaRuleShape& s,
                             const Chunk& c, int64_t head, Gates& g) {
  double total = 0;
  for (int64_t i = 0; i < c.count; ++i) {
    const float* row = gates + (c.first + i) * stride;
    g.sum[i] = total += row[head];
    g.beta[i] = row[s.value_heads + head];
  }
  for (int64_t i = 0; i < c.count; ++i) {
    g.since[i] = static_cast<float>(std::exp(g.sum[i]));
    g.left[i] = static_cast<float>(std::exp(total - g.sum[i]));
  }
  g.whole = static_cast<float>(std::exp(total));
}

// decay = D, mix = P and solve = −A, zero above the diagonal as far as their products read.
void make_triangles(const Chunk& c, const DeltaRuleShape& s, const Gates& g, DeltaScratch& t) {
  for (int64_t i = 0; i < c.count; ++i) {
    float *decay = t.decay + i * kDeltaStride, *mix = t.mix + i * kDeltaStride,
          *solve = t.solve + i * kDeltaStride;
    const float *of_q = t.scores + i * kDeltaStride,
                *of_k = t.scores + (c.count + i) * kDeltaStride;
    for (int64_t j = 0; j < c.count; ++j)
      decay[j] = j <= i ? static_cast<float>(g.sum[i] - g.sum[j]) : 0;
    for_lanes(c.count, [&](int64_t j, int n) FORGE_LAMBDA {
      const F d = keep_until(exp(load_n(decay + j, n)), i + 1 - j, set(0));
      store_n(decay + j, d, n);
      store_n(mix + j, keep_until(load_n(of_q + j, n) * d, i + 1 - j, set(0)), n);
      if (!s.erases) return;
      store_n(solve + j, keep_until(load_n(of_k + j, n) * d * set(-g.beta[i]), i - j, set(0)), n);
    });
  }
}

// to += triangle · from, of a lower triangle.
void add_lower(const float* triangle, const float* from, int64_t ld, int64_t rows, int64_t d,
               float* to) {
  for (int64_t r = 0; r < rows; r += kRowStep) {
    const int64_t m = std::min(kRowStep, rows - r);
    gemm(m, up(d), r + m, triangle + r * kDeltaStride, kDeltaStride, 1, from, ld, to + r * ld, ld,
         true);
  }
}
// to += triangleᵀ · from.
void add_lower_turned(const float* triangle, const float* from, int64_t ld, int64_t rows, int64_t d,
                      float* to, bool add) {
  for (int64_t r = 0; r < rows; r += kRowStep) {
    const int64_t m = std::min(kRowStep, rows - r);
    gemm(m, up(d), rows - r, triangle + r * kDeltaStride + r, 1, kDeltaStride, from + r * ld, ld,
         to + r * ld, ld, add);
  }
}

// x = (I + A)⁻¹ x, from the first row on.
void solve_forward(const float* solve, int64_t ld, int64_t rows, int64_t d, float* x) {
  for (int64_t r = 0; r < rows; r += kRowStep) {
    const int64_t m = std::min(kRowStep, rows - r);
    if (r > 0)
      gemm(m, up(d), r, solve + r * kDeltaStride, kDeltaStride, 1, x, ld, x + r * ld, ld, true);
    for (int64_t i = r + 1; i < r + m; ++i)
      for (int64_t j = r; j < i; ++j)
        add_row(x + j * ld, solve[i * kDeltaStride + j], up(d), x + i * ld);
  }
}
// x = (I + A)⁻ᵀ x, from the last row on.
void solve_backward(const float* solve, int64_t ld, int64_t rows, int64_t d, float* x) {
  for (int64_t r = (rows - 1) / kRowStep * kRowStep; r >= 0; r -= kRowStep) {
    const int64_t end = std::min(r + kRowStep, rows);
    if (end < rows)
      gemm(end - r, up(d), rows - end, solve + end * kDeltaStride + r, 1, kDeltaStride,
           x + end * ld, ld, x + r * ld, ld, true);
    for (int64_t j = end - 2; j >= r; --j)
      for (int64_t i = j + 1; i < end; ++i)
        add_row(x + i * ld, solve[i * kDeltaStride + j], up(d), x + j * ld);
  }
}

}  // namespace delta
}  // namespace forge::FORGE_ISA
