// C = A B or C += A B in fp32 on tiles that lie in cache, for ops that work on a product before it leaves it.
// Included by the FORGE_ISA part of an <op>_cpu.cpp.
//
// A register tile of kTileRows × kTileVectors · kLanes sums; each step of k loads one row of B's panel and
// multiplies it by kTileRows broadcast values of A. What n leaves over is a narrower tile, of one vector twice
// as high: eight sums and more hide the latency of an addition. Panels of k ≤ 128 rows of B stay in the
// first-level cache while all rows of A pass. A may be read transposed (a_row, a_k are its strides); B and C
// are row-major, n a multiple of kLanes: callers pad.
namespace forge::FORGE_ISA {

template <int R, int V>
FORGE_INLINE void gemm_tile(int64_t k, const float* a, int64_t a_row, int64_t a_k, const float* b,
                            int64_t ldb, float* c, int64_t ldc, bool add) {
  F total[R][V];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) total[r][v] = add ? load(c + r * ldc + v * kLanes) : set(0);
  for (int64_t i = 0; i < k; ++i) {
    F row[V];
    for (int v = 0; v < V; ++v) row[v] = load(b + i * ldb + v * kLanes);
    for (int r = 0; r < R; ++r) {
      F x = set(a[r * a_row + i * a_k]);
      for (int v = 0; v < V; ++v) total[r][v] = fma(x, row[v], total[r][v]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) store(c + r * ldc + v * kLanes, total[r][v]);
}

// Out of line: one copy for each number of rows and vectors.
template <int R, int V>
__attribute__((noinline)) void gemm_block(int64_t k, const float* a, int64_t a_row, int64_t a_k,
                                          const float* b, int64_t ldb, float* c, int64_t ldc, bool add) {
  gemm_tile<R, V>(k, a, a_row, a_k, b, ldb, c, ldc, add);
}

template <int V>
void gemm_rows(int64_t m, int64_t k, const float* a, int64_t a_row, int64_t a_k, const float* b, int64_t ldb,
               float* c, int64_t ldc, bool add) {
  int64_t r = 0;
  if constexpr (V == 1)
    for (; r + 2 * kTileRows <= m; r += 2 * kTileRows)
      gemm_block<2 * kTileRows, 1>(k, a + r * a_row, a_row, a_k, b, ldb, c + r * ldc, ldc, add);
  for (; r + kTileRows <= m; r += kTileRows)
    gemm_block<kTileRows, V>(k, a + r * a_row, a_row, a_k, b, ldb, c + r * ldc, ldc, add);
  for (; r + 2 <= m; r += 2) gemm_block<2, V>(k, a + r * a_row, a_row, a_k, b, ldb, c + r * ldc, ldc, add);
  if (r < m) gemm_block<1, V>(k, a + r * a_row, a_row, a_k, b, ldb, c + r * ldc, ldc, add);
}

// The last `vectors` ≤ V of a row.
template <int V>
void gemm_rest(int64_t vectors, int64_t m, int64_t k, const float* a, int64_t a_row, int64_t a_k,
               const float* b, int64_t ldb, float* c, int64_t ldc, bool add) {
  if constexpr (V > 0) {
    if (vectors == V) return gemm_rows<V>(m, k, a, a_row, a_k, b, ldb, c, ldc, add);
    gemm_rest<V - 1>(vectors, m, k, a, a_row, a_k, b, ldb, c, ldc, add);
  }
}

inline void gemm(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_k, const float* b,
                 int64_t ldb, float* c, int64_t ldc, bool add) {
  constexpr int64_t kPanel = 128, kWide = kTileVectors * kLanes;
  for (int64_t first = 0; first < k; first += kPanel, add = true) {
    int64_t depth = std::min(kPanel, k - first);
    const float *a_part = a + first * a_k, *b_part = b + first * ldb;
    int64_t column = 0;
    for (; column + kWide <= n; column += kWide)
      gemm_rows<kTileVectors>(m, depth, a_part, a_row, a_k, b_part + column, ldb, c + column, ldc, add);
    gemm_rest<kTileVectors - 1>((n - column) / kLanes, m, depth, a_part, a_row, a_k, b_part + column, ldb,
                                c + column, ldc, add);
  }
}

}  // namespace forge::FORGE_ISA
