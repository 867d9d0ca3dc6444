// Sixteen rows of w by up to eight of x at a time: codes become words in registers, and two columns
// of a row of x are spread over a vector.
#ifdef FORGE_ISA

#include "kernels/quantize/by_16.h"
#include "kernels/quantize/chunks.h"

namespace forge::FORGE_ISA {
namespace words {

constexpr int kMostRows = kLanes == 16 ? 8 : 2;

// Converts one row of x in 32s: words, and the power of two of each.
template <class T>
void of_row(const T* x, int64_t blocks, int16_t* to, float* powers) {
  F odd = set(0);  // stays zero unless something is not finite
  for (int64_t block = 0; block < blocks; ++block, x += 32, to += 32) {
    F largest = set(0);
    for (int i = 0; i < 32; i += kLanes) largest = max(largest, abs(load(x + i))), odd = fma(load(x + i), set(0), odd);
    const int32_t e = std::max((std::bit_cast<int32_t>(max_of(largest)) >> 23) - 127, -100);
    const auto power = [](int32_t n) { return std::bit_cast<float>((n + 127) << 23); };
    powers[block] = power(e - 14);
    alignas(64) float whole[32];
    for (int i = 0; i < 32; i += kLanes) store(whole + i, round(load(x + i) * set(power(14 - e))));
    for (int i = 0; i < 32; ++i) to[i] = static_cast<int16_t>(static_cast<int32_t>(whole[i]));
  }
  if (sum(odd) != 0)
    std::fill(powers, powers + blocks, std::nanf(""));
}

FORGE_INLINE SixteenCodes add_dots(const SixteenCodes& sums, const Words& w, const Words& x) {
#ifdef FORGE_PAIRS
  return add_dots_of_pairs(sums, w, x);
#else
  return sums + dots_of_pairs(w, x);
#endif
}

// Calls visit(n, the codes of columns 2n and 2n + 1 of each of the sixteen rows).
template <BlockCoding Coding>
struct Codes;

template <>
struct Codes<BlockCoding::q4_0_by_16> {
  static constexpr int64_t kBytes = bytes_by_16(BlockCoding::q4_0_by_16);
  template <class Visit>
  static FORGE_INLINE void each_pair(const uint8_t* codes, Visit visit) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      Words four;
      std::memcpy(&four, codes + 64 * v, sizeof four);
      visit(4 * v, four << 12 >> 12), visit(4 * v + 1, four << 8 >> 12), visit(4 * v + 2, four << 4 >> 12), visit(4 * v + 3, four >> 12);
    }
  }
};
template <>
struct Codes<BlockCoding::q8_0_by_16> {
  static constexpr int64_t kBytes = bytes_by_16(BlockCoding::q8_0_by_16);
  template <class Visit>
  static FORGE_INLINE void each_pair(const uint8_t* codes, Visit visit) {
#pragma GCC unroll 16
    for (int n = 0; n < 16; ++n) visit(n, words_at(codes + 32 * n));
  }
};

struct X {
  const int16_t* words;  // [rows, 32 · blocks]
  const float* powers;   // [rows, blocks]
  int64_t blocks;
};

// Computes sixteen results of `R` rows of x from `row` on. Each row has several sums at a time,
// since one sum waits four cycles for each of its additions.
template <int R, class Of>
__attribute__((noinline)) void tile(const X& x, int64_t row, const uint8_t* w, Sixteen* results) {
  constexpr int kSums = R == 1 ? 4 : R == 2 ? 2 : 1;
  Sixteen total[R];
#pragma GCC unroll 8
  for (Sixteen& each : total) each = Sixteen{};
  for (int64_t block = 0; block < x.blocks; ++block, w += Of::kBytes) {
    SixteenCodes sums[R][kSums];
#pragma GCC unroll 8
    for (auto& of_row : sums)
#pragma GCC unroll 4
      for (SixteenCodes& each : of_row) each = SixteenCodes{};
    Of::each_pair(w + 32, [&](int n, const Words& codes) FORGE_LAMBDA {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        int32_t pair;
        std::memcpy(&pair, x.words + ((row + r) * x.blocks + block) * 32 + 2 * n, sizeof pair);
        sums[r][n % kSums] = add_dots(sums[r][n % kSums], codes, (Words)(SixteenCodes{} + pair));
      }
    });
    const Sixteen d = sixteen_halves(w);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      for (int i = 1; i < kSums; ++i) sums[r][0] += sums[r][i];
      total[r] += d * x.powers[(row + r) * x.blocks + block] * floats(sums[r][0]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) results[r] = total[r];
}

template <class T, class Y>
FORGE_INLINE void store_results(const RowProduct& a, int64_t row, int64_t column, int rows, const Sixteen* results) {
  for (int r = 0; r < rows; ++r) {
    alignas(64) float sums[16];
    std::memcpy(sums, &results[r], sizeof sums);
    for (int i = 0; i < 16; i += kLanes) {
      const F added = a.bias ? load(static_cast<const T*>(a.bias) + column + i) : set(0);
      store(static_cast<Y*>(a.y) + (row + r) * a.y_stride + column + i, load(sums + i) + added);
    }
  }
}

template <class T, class Y, class Of>
void columns(const RowProduct& a, const X& x, int64_t first_row, int64_t rows, int64_t first, int64_t count) {
  for (int64_t column = first; column < first + count; column += 16) {
    const uint8_t* w = a.blocks.codes + column / 16 * x.blocks * Of::kBytes;
    int64_t row = 0;
    const auto down = [&](auto height) FORGE_LAMBDA {
      Sixteen results[height];
      for (; row + height <= rows; row += height) {
        tile<height, Of>(x, row, w, results);
        store_results<T, Y>(a, first_row + row, column, height, results);
      }
    };
    down(std::integral_constant<int, kMostRows>{});
    if constexpr (kMostRows > 4) down(std::integral_constant<int, 4>{});
    if constexpr (kMostRows > 2) down(std::integral_constant<int, 2>{});
    down(std::integral_constant<int, 1>{});
  }
}

}  // namespace words

void words_of_rows(const RowProduct& a, int64_t first, int64_t begin, int64_t end, int16_t* to, float* powers) {
  by_element(a.type, [&](auto element) FORGE_LAMBDA {
    for (int64_t row = begin; row < end; ++row)
      words::of_row(static_cast<const decltype(element)*>(a.x) + (first + row) * a.x_stride, a.in / 32, to + row * a.in, powers + row * (a.in / 32));
  });
}

// Multiplies rows [row, row + rows) of x, whose words in `x` are made by words_of_rows, by columns
// [first, first + count).
void words_product_columns(const RowProduct& a, const int16_t* x, const float* powers, int64_t row, int64_t rows, int64_t first, int64_t count) {
  by_element(a.type, [&](auto element) FORGE_LAMBDA {
    using T = decltype(element);
    const auto with = [&](auto coding) FORGE_LAMBDA {
      using Of = words::Codes<decltype(coding)::value>;
      const words::X rows_of_x{x, powers, a.in / 32};
      a.result == Element::f32 ? words::columns<T, float, Of>(a, rows_of_x, row, rows, first, count)
                               : words::columns<T, T, Of>(a, rows_of_x, row, rows, first, count);
    };
    a.blocks.coding == BlockCoding::q4_0_by_16 ? with(std::integral_constant<BlockCoding, BlockCoding::q4_0_by_16>())
                                               : with(std::integral_constant<BlockCoding, BlockCoding::q8_0_by_16>());
  });
}

}  // namespace forge::FORGE_ISA

#else

#include "kernels/cpu/parallel.h"
#include "kernels/product/words_product.h"
#define FORGE_PRODUCTS_OF_PAIRS
#define FORGE_KERNEL_FILE "kernels/product/words_product_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {
namespace {

// Bytes of x's words that stay in the second-level cache while w passes.
constexpr int64_t kWordBytes = 512 << 10, kRowsPerTask = 4;
// Products with fewer operations run on one thread, since starting threads would cost more.
constexpr int64_t kAlone = 1 << 14;

int64_t rows_at_once(const RowProduct& a) { return std::min(a.rows, std::clamp<int64_t>(kWordBytes / (2 * a.in) / 8 * 8, 8, kBlockRows)); }

}  // namespace

int64_t words_product_cpu_workspace(const RowProduct& a) { return 64 + rows_at_once(a) * (2 * a.in + a.in / 32 * 4); }

void words_product_cpu(const RowProduct& a, CpuLevel level) {
  const auto make = FORGE_PICK_PAIRS(level, words_of_rows);
  const auto multiply = FORGE_PICK_PAIRS(level, words_product_columns);
  auto* words = reinterpret_cast<int16_t*>((reinterpret_cast<uintptr_t>(a.workspace) + 63) / 64 * 64);
  auto* powers = reinterpret_cast<float*>(words + rows_at_once(a) * a.in);
  const int64_t groups = a.out / kRowsSideBySide, together = tasks_in_a_piece(groups, a.in / 32 * bytes_by_16(a.blocks.coding));
  for (int64_t row = 0; row < a.rows; row += rows_at_once(a)) {
    const int64_t rows = std::min(rows_at_once(a), a.rows - row);
    const TaskPhase of_x{(rows + kRowsPerTask - 1) / kRowsPerTask, [&](int64_t task, int64_t) {
                           make(a, row, task * kRowsPerTask, std::min(rows, (task + 1) * kRowsPerTask), words, powers);
                         }};
    const TaskPhase of_w{(groups + together - 1) / together, [&](int64_t task, int64_t) {
                           const int64_t first = task * together, last = std::min(groups, first + together);
                           multiply(a, words, powers, row, rows, first * kRowsSideBySide, (last - first) * kRowsSideBySide);
                         }};
    if (rows * a.in <= kAlone) {
      make(a, row, 0, rows, words, powers);
      parallel_tasks(of_w.count, of_w.work);
    } else {
      parallel_phases(of_x, of_w);
    }
  }
}

}  // namespace forge

#endif
