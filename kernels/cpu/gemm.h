// C = A B or C += A B in fp32 on tiles that are in cache, for ops that use a product before it
// leaves the cache. Included by the FORGE_ISA part of an <op>_cpu.cpp.
//
// A register tile has kTileRows × kTileVectors · kLanes sums; each step of k loads one row of B's
// panel and multiplies it by kTileRows broadcast values of A. The remainder of n is a narrower
// tile, of one vector kNarrowTileRows high: eight sums and more hide the latency of an addition.
// Panels of kPanelDepth rows of B stay in the first-level cache while all rows of A pass. A may be
// read transposed (a_row, a_k are its strides). B and C are row-major and n is a multiple of
// kLanes: callers pad.
namespace forge::FORGE_ISA {

// Finishes a sum of products before it is stored: finish(sum, row of C, first column of C) returns
// the value to store. A finish that returns nothing has stored it itself. If it has ahead(row,
// column), that prefetches the memory that the next tile of rows is stored to.
struct AsItIs {
  FORGE_INLINE F operator()(F sum, int64_t, int64_t) const { return sum; }
};

// Rows of B in a panel: at 64 columns they are 24 KB, so a first-level cache of 32 KB has room for
// them beside A's rows. Sums are the same for any depth.
constexpr int64_t kPanelDepth = 96;

struct GemmShape {
  int64_t k, a_row, a_k, ldb, ldc;
  bool add;
};

// Computes R rows of C, V vectors wide, from `row`, `column`; a, b and c point to the operands
// there. Not inlined: there is one copy for each number of rows and vectors. Everything that moves
// is an argument in a register: passing it as one struct cost 300 cycles a call (stores of words
// that are read back as vectors), a sixth of a product of 12 rows.
template <int R, int V, class Finish>
__attribute__((noinline)) void gemm_tile(const GemmShape& s, const float* a, const float* b, float* c,
                                         int64_t row, int64_t column, const Finish& finish) {
  if constexpr (requires { finish.ahead(row, column); })
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v) finish.ahead(row + R + r, column + v * kLanes);
  // The sums stay in registers, so every loop over them is unrolled.
  F total[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) total[r][v] = set(0);
  if (s.add)
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) total[r][v] = load(c + r * s.ldc + v * kLanes);
  // One pointer serves six rows: more rows from one pointer would cost an addition each, a pointer
  // each a register.
  constexpr int kParts = (R + kTileRows - 1) / kTileRows;
  const float* parts[kParts];
  for (int p = 0; p < kParts; ++p) parts[p] = a + p * kTileRows * s.a_row;
  const int64_t a_row = s.a_row, a_k = s.a_k, ldb = s.ldb;
  for (int64_t i = s.k; i > 0; --i, b += ldb) {
    F of_b[V];
    for (int v = 0; v < V; ++v) of_b[v] = load(b + v * kLanes);
    for (int r = 0; r < R; ++r) {
      F x = set(parts[r / kTileRows][r % kTileRows * a_row]);
      for (int v = 0; v < V; ++v) total[r][v] = fma(x, of_b[v], total[r][v]);
    }
    for (int p = 0; p < kParts; ++p) parts[p] += a_k;
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      if constexpr (std::is_void_v<decltype(finish(total[r][v], row, column))>)
        finish(total[r][v], row + r, column + v * kLanes);
      else
        store(c + r * s.ldc + v * kLanes, finish(total[r][v], row + r, column + v * kLanes));
    }
}

template <int V, class Finish>
FORGE_INLINE void gemm_rows(const GemmShape& s, int64_t m, const float* a, const float* b, float* c,
                            int64_t column, const Finish& finish) {
  int64_t row = 0;
  auto down = [&](auto rows) FORGE_LAMBDA {
    constexpr int kRows = decltype(rows)::value;
    for (; row + kRows <= m; row += kRows)
      gemm_tile<kRows, V>(s, a + row * s.a_row, b, c + row * s.ldc, row, column, finish);
  };
  if constexpr (V == 1) down(std::integral_constant<int, kNarrowTileRows>{});
  down(std::integral_constant<int, kTileRows>{});
  down(std::integral_constant<int, 2>{});
  down(std::integral_constant<int, 1>{});
}

// Computes the last `vectors` ≤ V of a row.
template <int V, class Finish>
FORGE_INLINE void gemm_rest(const GemmShape& s, int64_t vectors, int64_t m, const float* a, const float* b,
                            float* c, int64_t column, const Finish& finish) {
  if constexpr (V > 0) {
    if (vectors == V) return gemm_rows<V>(s, m, a, b, c, column, finish);
    gemm_rest<V - 1>(s, vectors, m, a, b, c, column, finish);
  }
}

template <class Finish>
void gemm_panel(const GemmShape& s, int64_t m, int64_t n, const float* a, const float* b, float* c,
                const Finish& finish) {
  constexpr int64_t kWide = kTileVectors * kLanes;
  int64_t column = 0;
  for (; column + kWide <= n; column += kWide)
    gemm_rows<kTileVectors>(s, m, a, b + column, c + column, column, finish);
  gemm_rest<kTileVectors - 1>(s, (n - column) / kLanes, m, a, b + column, c + column, column, finish);
}

template <class Finish = AsItIs>
FORGE_INLINE void gemm(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_k,
                       const float* b, int64_t ldb, float* c, int64_t ldc, bool add,
                       const Finish& finish = {}) {
  for (; k > kPanelDepth; k -= kPanelDepth, a += kPanelDepth * a_k, b += kPanelDepth * ldb, add = true)
    gemm_panel({kPanelDepth, a_row, a_k, ldb, ldc, add}, m, n, a, b, c, AsItIs{});
  gemm_panel({k, a_row, a_k, ldb, ldc, add}, m, n, a, b, c, finish);
}

}  // namespace forge::FORGE_ISA
