// Computes dot products of rows: a register tile of a few rows of x by four of w, each sum over
// vectors of k, whose lanes are added at the end. Nothing is packed: for one row of x, w is read in
// its memory layout, at the speed of memory; while more rows pass, the next rows of w are
// prefetched, line by line.
//
// Packing w would cost as much as the product for up to a few dozen rows. Without prefetching,
// memory and arithmetic take turns, and 16 rows of SmolLM2's layers take 1.5 times as long. For a
// thousand rows oneDNN's packed product is a fifth faster, and training keeps it.
// kernels/README.md, "Measured choices", has what was tried.
#ifdef FORGE_ISA

#include "kernels/quantize/chunks.h"

namespace forge::FORGE_ISA {
namespace rowwise {

// Rows of x and of w in a tile: 16 sums of 32 registers, 8 of 16. Many rows of x come out of the
// second-level cache, and six rows of w use each of them more often: 24 sums, in fp32 alone, since
// pairs wait for their multiplication and not for x.
constexpr int kRows = kLanes == 16 ? 4 : 2, kColumns = 4, kManyColumns = kLanes == 16 ? 6 : 4;
constexpr int64_t kManyRows = 17;
// Stride of the rows of a block's results: a tile writes up to seven places after its own.
constexpr int64_t kBlockStride = kBlockColumns + 8;

struct Tile {
  int64_t k, x_stride, w_stride;
};

// Rows of memory that are prefetched while tiles are multiplied: the rows of w after a tile's own,
// or those that will be widened next.
template <class T>
struct Ahead {
  const T* rows;
  int64_t stride, count;
  bool of_w;

  const char* at(int64_t row, int64_t width, int64_t asks) const {
    return reinterpret_cast<const char*>(rows + std::max<int64_t>(0, std::min(row + (of_w ? width : 0), count - asks)) * stride);
  }
};

// A step along k: the elements that it reads from a row, and their number.
template <class X, class W>
struct Factors {
  static constexpr int kStep = kLanes;
  template <class T>
  static FORGE_INLINE F of(const T* p, int n) {
    return load_n(p, n);
  }
};
#ifdef FORGE_PAIRS
template <>
struct Factors<Bf16, Bf16> {
  static constexpr int kStep = kPairLanes;
  static FORGE_INLINE Pairs of(const Bf16* p, int n) { return load_pairs(p, n); }
};
#endif

// Writes a row in fp32, followed by zeros. For pairs it writes first the second elements, vector by
// vector, and then the first: products of two such rows are added up in the order of the
// instruction for pairs, to the same bits.
template <class T>
FORGE_INLINE void widen(const T* row, int64_t k, float* to) {
  using Row = Factors<T, T>;
  for_steps<Row::kStep>(k, [&](int64_t i, int n) FORGE_LAMBDA {
    if constexpr (Row::kStep == kLanes) {
      store(to + i, Row::of(row + i, n));
    } else {
      const auto pairs = Row::of(row + i, n);
      store(to + i, second_of(pairs));
      store(to + i + kLanes, first_of(pairs));
    }
  });
}

// Stride of the rows of a tile's sums.
constexpr int sums_stride(int columns) { return columns > kColumns ? 2 * kColumns : kColumns; }

// Computes sums[r, c] = x_r · w_c. Meanwhile `Ask` rows from `next` on, of elements of `bytes`
// bytes, are prefetched in the order of memory.
template <int R, int C, int Ask, class X, class W>
__attribute__((noinline)) void dots(const Tile& t, const X* x, const W* w, const char* next, int64_t bytes, float* sums) {
  using Row = Factors<X, W>;
  F total[R][C];
#pragma GCC unroll 4
  for (auto& row : total)
#pragma GCC unroll 6
    for (F& each : row) each = set(0);
  const auto step = [&](int64_t k, int n) FORGE_LAMBDA {
    if constexpr (std::is_same_v<X, W>)
      for (int line = 0; line < Ask; ++line) __builtin_prefetch(next + (Ask * k + line * Row::kStep) * bytes);
    decltype(Row::of(x, n)) of_x[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) of_x[r] = Row::of(x + r * t.x_stride + k, n);
#pragma GCC unroll 6
    for (int c = 0; c < C; ++c) {
      const auto of_w = Row::of(w + c * t.w_stride + k, n);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) total[r][c] = fma(of_x[r], of_w, total[r][c]);
    }
  };
  if constexpr (R == 1 && Ask == kColumns && std::is_same_v<X, W>) {
    // One row of w after the other, in the order of memory: the processor prefetches a single
    // stream up to twice as fast as four.
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
      for_steps<Row::kStep>(t.k, [&](int64_t k, int n)
                                     FORGE_LAMBDA { total[0][c] = fma(Row::of(x + k, n), Row::of(w + c * t.w_stride + k, n), total[0][c]); });
  } else {
    for_steps<Row::kStep>(t.k, step);
  }
  // Sixteen are added at once, which costs as much as seven one by one; whole vectors are stored,
  // so that parts of them are read back at once.
  constexpr int kAtOnce = kColumns * kRows, kStride = sums_stride(C);
#pragma GCC unroll 2
  for (int begin = 0; begin < R * kStride; begin += kAtOnce) {
    F some[kAtOnce];
#pragma GCC unroll 16
    for (int i = 0; i < kAtOnce; ++i) {
      const int r = (begin + i) / kStride, c = (begin + i) % kStride;
      some[i] = r < R && c < C ? total[r][c] : set(0);
    }
    sums_of(some, sums + begin);
  }
}

// Like dots(), for one row of x and rows of w in blocks, which are multiplied as they are decoded
// while as many rows after them are prefetched.
template <class X, class Row>
__attribute__((noinline)) void dots_of_blocks(int64_t count, const X* x, const Row (&w)[kColumns], float* sums) {
  F total[kRows * kColumns];
#pragma GCC unroll 16
  for (F& each : total) each = set(0);
  for (int64_t k = 0; k < count; k += 32) {
    F of_x[32 / kLanes];
#pragma GCC unroll 8
    for (int i = 0; i < 32; i += kLanes) of_x[i / kLanes] = load(x + k + i);
    w[0].template ask_all<kColumns>(k / 32);
    float scales[kColumns];
    if constexpr (Row::kOneScale)
      four_halves(w[0].scale(k / 32) | w[1].scale(k / 32) << 16 | w[2].scale(k / 32) << 32 | w[3].scale(k / 32) << 48, scales);
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      alignas(64) float of_w[32];
      if constexpr (Row::kOneScale)
        w[c].read(k / 32, scales[c], of_w);
      else
        w[c].read(k / 32, of_w);
#pragma GCC unroll 8
      for (int i = 0; i < 32; i += kLanes) total[c] = fma(of_x[i / kLanes], load(of_w + i), total[c]);
    }
  }
  sums_of(total, sums);
}

// Computes y = sums + bias, for `width` columns from `column` on.
template <class T, class Y>
FORGE_INLINE void store_sums(const RowProduct& a, int64_t row, int height, int64_t column, int width, const float* sums, int stride) {
  const F added = a.bias ? load_part(static_cast<const T*>(a.bias) + column, width) : set(0);
  for (int i = 0; i < height; ++i)
    store_part(static_cast<Y*>(a.y) + (row + i) * a.y_stride + column, load_part(sums + i * stride, width) + added, width);
}

// Multiplies `columns` rows of w in blocks from `first` on with one row of x. Places after the last
// row repeat it.
template <class T, class Y>
void one_of_blocks(const RowProduct& a, int64_t row, int64_t first, int64_t columns) {
  const T* x = static_cast<const T*>(a.x) + row * a.x_stride;
  float sums[kRows * kColumns];
  by_coding(a.blocks.coding, [&](auto coding) FORGE_LAMBDA {
    using Row = Chunks<decltype(coding)::value>;
    for (int64_t c = 0; c < columns; c += kColumns) {
      const auto at = [&](int64_t i) FORGE_LAMBDA { return Row(a.blocks, first + std::min(c + i, columns - 1)); };
      dots_of_blocks<T, Row>(a.in, x, {at(0), at(1), at(2), at(3)}, sums);
      store_sums<T, Y>(a, row, 1, first + c, static_cast<int>(std::min<int64_t>(kColumns, columns - c)), sums, kColumns);
    }
  });
}

// Multiplies `columns` rows of w from `first` on with `rows` rows of x, which are those of the
// result from `row` on.
template <class T, class Y, class X, class W>
void block(const RowProduct& a, const Tile& t, const Ahead<T>& ahead, int64_t row, int64_t rows, int64_t first, int64_t columns, const X* x, const W* w) {
  alignas(64) float sums[kRows * 2 * kColumns];
  alignas(64) float y[kBlockRows * kBlockStride];
  // Each tile of these columns prefetches one row of those ahead of them; if there are only two
  // tiles, two rows each, and a single tile prefetches all.
  const int64_t asks = columns < kColumns || rows > 2 * kRows ? 1 : rows > kRows ? 2 : kColumns;
  const auto tile = [&](auto height, auto width, int64_t r, int64_t c) FORGE_LAMBDA {
    const auto sum = asks == kColumns ? dots<height, width, kColumns, X, W> : asks == 2 ? dots<height, width, 2, X, W> : dots<height, width, 1, X, W>;
    sum(t, x + r * t.x_stride, w + c * t.w_stride, ahead.at(c + r / kRows * asks % width, width, asks), sizeof(T), sums);
    for (int i = 0; i < height; ++i) {
      // The places after `width` sums are overwritten by the next columns.
      constexpr int kStride = sums_stride(width);
      std::memcpy(y + (r + i) * kBlockStride + c, sums + i * kStride, kStride * sizeof(float));
    }
  };
  const auto down = [&](auto width, int64_t c) FORGE_LAMBDA {
    int64_t r = 0;
    for (; r + kRows <= rows; r += kRows) tile(std::integral_constant<int, kRows>{}, width, r, c);
    if constexpr (kRows > 2)
      for (; r + 2 <= rows; r += 2) tile(std::integral_constant<int, 2>{}, width, r, c);
    for (; r < rows; ++r) tile(std::integral_constant<int, 1>{}, width, r, c);
  };
  int64_t c = 0;
  if constexpr (std::is_same_v<W, float> && kManyColumns > kColumns)
    if (rows >= kManyRows)
      for (; c + kManyColumns <= columns; c += kManyColumns) down(std::integral_constant<int, kManyColumns>{}, c);
  for (; c + kColumns <= columns; c += kColumns) down(std::integral_constant<int, kColumns>{}, c);
  for (; c < columns; ++c) down(std::integral_constant<int, 1>{}, c);
  // Results are written by whole rows: four results at a time cost as much in 16 bits as a whole
  // vector.
  for (int64_t r = 0; r < rows; ++r)
    for_lanes(columns, [&](int64_t i, int n) FORGE_LAMBDA {
      const F added = a.bias ? load_n(static_cast<const T*>(a.bias) + first + i, n) : set(0);
      store_n(static_cast<Y*>(a.y) + (row + r) * a.y_stride + first + i, load_n(y + r * kBlockStride + i, n) + added, n);
    });
}

// Columns of w that are decoded or widened at a time for few rows of x: whole tiles, which fit in
// the first-level cache beside x.
constexpr int64_t kDecodedForFew = 8;

template <class T, class Y>
void columns_of_blocks(const RowProduct& a, int64_t row, int64_t rows, int64_t first, int64_t count, float* decoded, DecodeRows decode) {
  if (rows == 1) return one_of_blocks<T, Y>(a, row, first, count);
  const Tile t{a.in, a.x_stride, a.in};
  const T* x = static_cast<const T*>(a.x) + row * a.x_stride;
  const Ahead<T> nothing{x, 0, 0, false};
  const int64_t at_once = rows < kManyRows ? kDecodedForFew : kDecodedColumns;
  for (int64_t c = 0; c < count; c += at_once) {
    const int64_t together = std::min(at_once, count - c);
    decode(a.blocks, first + c, first + c + together, decoded, a.in);
    block<T, Y>(a, t, nothing, row, rows, first + c, together, x, decoded);
  }
}

// Multiplies a block of w that stays in cache while all rows of x pass. If x is widened, some of
// the block's 16-bit columns at a time are widened first, while the next ones are prefetched.
template <class T, class Y>
void columns(const RowProduct& a, int64_t row, int64_t rows, int64_t first, int64_t count, const float* wide_x, float* wide, DecodeRows decode) {
  if (!a.w) return columns_of_blocks<T, Y>(a, row, rows, first, count, wide, decode);
  const T *x = static_cast<const T*>(a.x) + row * a.x_stride, *w = static_cast<const T*>(a.w) + first * a.in;
  if (!wide_x) return block<T, Y>(a, {a.in, a.x_stride, a.in}, {w, a.in, count, true}, row, rows, first, count, x, w);
  const int64_t stride = widened_stride(a.in), k = Factors<T, T>::kStep > kLanes ? stride : a.in, at_once = rows < kManyRows ? kDecodedForFew : kDecodedColumns;
  for (int64_t c = 0; c < count; c += at_once) {
    const int64_t together = std::min(at_once, count - c), next = c + together;
    for (int64_t i = 0; i < together; ++i) widen(w + (c + i) * a.in, a.in, wide + i * stride);
    block<T, Y>(a, {k, stride, stride}, {w + next * a.in, a.in, std::min(at_once, a.out - first - next), false}, row, rows, first + c, together, wide_x, wide);
  }
}

// Multiplies with a w that is [in, out]: sums over vectors of its columns, k by k. Rows of x share
// the loads of w.
template <int R, class T, class Y>
FORGE_INLINE void across_rows(const RowProduct& a, int64_t row, int64_t column, int n) {
  const T *x = static_cast<const T*>(a.x) + row * a.x_stride, *w = static_cast<const T*>(a.w) + column;
  const F added = a.bias ? load_n(static_cast<const T*>(a.bias) + column, n) : set(0);
  F total[R];
  for (F& each : total) each = set(0);
  for (int64_t k = 0; k < a.in; ++k) {
    const F of_w = load_n(w + k * a.out, n);
    for (int r = 0; r < R; ++r) total[r] = fma(set(to_float(x[r * a.x_stride + k])), of_w, total[r]);
  }
  for (int r = 0; r < R; ++r)
    store_n(static_cast<Y*>(a.y) + (row + r) * a.y_stride + column, total[r] + added, n);
}

template <class T, class Y>
void across(const RowProduct& a, int64_t row, int64_t rows, int64_t first, int64_t count) {
  for_lanes(count, [&](int64_t i, int n) FORGE_LAMBDA {
    int64_t r = row;
    for (; r + kRows <= row + rows; r += kRows) across_rows<kRows, T, Y>(a, r, first + i, n);
    for (; r < row + rows; ++r) across_rows<1, T, Y>(a, r, first + i, n);
  });
}

}  // namespace rowwise

void row_product_across(const RowProduct& a, int64_t row, int64_t rows, int64_t first, int64_t count) {
  by_element(a.type, [&](auto element) FORGE_LAMBDA {
    using T = decltype(element);
    a.result == Element::f32 ? rowwise::across<T, float>(a, row, rows, first, count)
                             : rowwise::across<T, T>(a, row, rows, first, count);
  });
}

// `wide_x` holds the rows of x from `row` on, widened; null: they are read as they are.
void row_product_columns(const RowProduct& a, int64_t row, int64_t rows, int64_t first, int64_t count, const float* wide_x, float* wide,
                         DecodeRows decode) {
  by_element(a.type, [&](auto element) FORGE_LAMBDA {
    using T = decltype(element);
    a.result == Element::f32 ? rowwise::columns<T, float>(a, row, rows, first, count, wide_x, wide, decode)
                             : rowwise::columns<T, T>(a, row, rows, first, count, wide_x, wide, decode);
  });
}

void row_product_widen(const RowProduct& a, int64_t row, float* to) {
  by_element(a.type, [&](auto element) FORGE_LAMBDA {
    using T = decltype(element);
    rowwise::widen(static_cast<const T*>(a.x) + row * a.x_stride, a.in, to);
  });
}

}  // namespace forge::FORGE_ISA

#else

#include "kernels/cpu/parallel.h"
#include "kernels/product/words_product.h"
#define FORGE_PRODUCTS_OF_PAIRS
#define FORGE_KERNEL_FILE "kernels/product/product_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {
namespace {

// Blocks of x and of w fit in the second-level cache together; those of w are small enough that
// threads get equal shares.
constexpr int64_t kRowBytes = 384 << 10, kColumnBytes = 96 << 10;

int64_t at_once(int64_t bytes, int64_t in, int64_t most) {
  return std::clamp<int64_t>(bytes / (4 * std::max<int64_t>(1, in)) / 4 * 4, 4, most);
}
int64_t columns_at_once(const RowProduct& a, bool wide) {
  const int64_t columns = at_once(kColumnBytes, a.in, kBlockColumns);
  return std::min(wide ? std::max(kDecodedColumns, columns / kDecodedColumns * kDecodedColumns) : columns, a.out);
}

int64_t rows_at_once(const RowProduct& a) { return at_once(kRowBytes, a.in, kBlockRows); }

// Number of rows of x from which on x is widened, and w block by block: on processors without an
// instruction for pairs, and on those with a slow one.
constexpr int64_t kWidenedRows = 5, kSplitRows = 17;

bool widens(const RowProduct& a, CpuLevel level, bool split) {
  if (a.type == Element::f32 || !a.w) return false;
  const bool multiplied = a.type == Element::bf16 && level == CpuLevel::avx512_bf16;
  return multiplied ? split && a.rows >= kSplitRows : a.rows >= kWidenedRows;
}

// Returns the fp32 numbers of a thread's part: w in 16 bits that is widened, or w in blocks that is
// decoded, at a time.
int64_t row_product_cpu_scratch(const RowProduct& a) {
  if (a.w && (a.type == Element::f32 || a.across)) return 0;
  return std::min(kDecodedColumns, a.out) * widened_stride(a.in);
}

}  // namespace

int64_t row_product_cpu_workspace(const RowProduct& args) {
  if (takes_words(args)) return words_product_cpu_workspace(args);
  const int64_t scratch = row_product_cpu_scratch(args);
  const int64_t x = args.w && scratch > 0 ? std::min(args.rows, rows_at_once(args)) * widened_stride(args.in) : 0;
  return scratch == 0 ? 0 : 64 + (x + task_threads() * scratch) * 4;
}

namespace {

void across(const RowProduct& args, CpuLevel level) {
  constexpr int64_t kColumns = 64;  // whole cache lines, and enough blocks for all threads
  auto columns = FORGE_PICK(level, row_product_across);
  parallel_tasks((args.out + kColumns - 1) / kColumns, [&](int64_t block, int64_t) {
    columns(args, 0, args.rows, block * kColumns, std::min(kColumns, args.out - block * kColumns));
  });
}

void row_product_cpu(const RowProduct& args, CpuLevel level, bool split) {
  if (args.across) return across(args, level);
  if (takes_words(args)) return words_product_cpu(args, level);
  auto columns = FORGE_PICK_PAIRS(level, row_product_columns);
  const DecodeRows decode = decode_rows_of(level);
  if (args.out == 0) return;
  const int64_t rows = rows_at_once(args), wide = columns_at_once(args, widens(args, level, split)), blocks = (args.out + wide - 1) / wide;
  float* base = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(args.workspace) + 63) / 64 * 64);
  auto widen = FORGE_PICK_PAIRS(level, row_product_widen);
  const int64_t stride = widened_stride(args.in);
  float* wide_x = nullptr;
  if (widens(args, level, split)) wide_x = base, base += std::min(args.rows, rows) * stride;
  const int64_t bytes = wide * args.in * (args.w ? bytes_of(args.type) : 1), together = wide_x ? 2 : args.rows > 4 ? 1 : tasks_in_a_piece(blocks, bytes);
  for (int64_t row = 0; row < args.rows; row += rows) {
    const int64_t some = std::min(rows, args.rows - row);
    for (int64_t r = 0; wide_x && r < some; ++r) widen(args, row + r, wide_x + r * stride);
    parallel_tasks(blocks, [&](int64_t block, int64_t thread) {
      columns(args, row, some, block * wide, std::min(wide, args.out - block * wide), wide_x, base + thread * row_product_cpu_scratch(args), decode);
    }, together);
  }
}

}  // namespace

void row_product_cpu(const RowProduct& args, CpuLevel level) { row_product_cpu(args, level, !fast_pairs()); }
void row_product_split_cpu(const RowProduct& args, CpuLevel level) { row_product_cpu(args, level, true); }

}  // namespace forge

#endif
