#ifdef FORGE_ISA

#include "kernels/cpu/gemm.h"

namespace forge::FORGE_ISA {
namespace tiles {

constexpr int64_t kDepth = kPanelDepth, kWidth = kGemmColumns, kHeight = kGemmRows;
static_assert(kWidth % (kTileVectors * kLanes) == 0 && kHeight % kTileRows == 0);

int64_t full_vectors(int64_t width) { return (width + kLanes - 1) / kLanes * kLanes; }

struct Space {
  alignas(64) float b[kDepth * kWidth];
  alignas(64) float a[kHeight * kDepth];     // where a is transposed or of 16 bits
  alignas(64) float sums[kHeight * kWidth];  // where the result is of 16 bits or the block's last vector is not full
};

// [rows, columns] as they lie, zeros up to a full vector.
template <class T>
void lay_rows(const T* from, int64_t stride, int64_t rows, int64_t columns, float* to, int64_t to_stride) {
  for (int64_t i = 0; i < rows; ++i)
    for_lanes(columns, [&](int64_t j, int n)
                           FORGE_LAMBDA { store(to + i * to_stride + j, load_n(from + i * stride + j, n)); });
}

// Rows [m, m + rows) and columns [n, n + width) of the result, of type Y, from operands of type T.
template <class T, class Y>
void block(const Gemm& g, int64_t m, int64_t rows, int64_t n, int64_t width) {
  Space space;
  const int64_t wide = full_vectors(width);
  const bool beside = !std::is_same_v<Y, float> || wide != width;
  Y* out = static_cast<Y*>(g.out) + m * g.out_stride + n;
  float* c = space.sums;
  if constexpr (std::is_same_v<Y, float>)
    if (!beside) c = out;
  const int64_t ldc = beside ? kWidth : g.out_stride;
  const T *a = static_cast<const T*>(g.a.data), *b = static_cast<const T*>(g.b.data);
  for (int64_t k = 0; k < g.k; k += kDepth) {
    const int64_t depth = std::min(kDepth, g.k - k);
    if (g.b.transposed)
      transpose(b + n * g.b.stride + k, g.b.stride, width, depth, space.b, kWidth);
    else
      lay_rows(b + k * g.b.stride + n, g.b.stride, depth, width, space.b, kWidth);
    if (g.alpha != 1)
      for (int64_t i = 0; i < depth * kWidth; i += kLanes)
        store(space.b + i, load(space.b + i) * set(g.alpha));
    GemmShape shape{depth, kDepth, 1, kWidth, ldc, k > 0 || (g.add && !beside)};
    const float* left = space.a;
    if (g.a.transposed) {
      lay_rows(a + k * g.a.stride + m, g.a.stride, depth, rows, space.a, kHeight);
      shape.a_row = 1, shape.a_k = kHeight;
    } else if constexpr (std::is_same_v<T, float>) {
      left = a + m * g.a.stride + k, shape.a_row = g.a.stride;
    } else {
      lay_rows(a + m * g.a.stride + k, g.a.stride, rows, depth, space.a, kDepth);
    }
    gemm_panel(shape, rows, wide, left, space.b, c, AsItIs{});
  }
  if (!beside) return;
  for (int64_t r = 0; r < rows; ++r)
    for_lanes(width, [&](int64_t j, int part) FORGE_LAMBDA {
      const F sum = load(c + r * kWidth + j);
      store_n(out + r * g.out_stride + j, g.add ? load_n(out + r * g.out_stride + j, part) + sum : sum, part);
    });
}

}  // namespace tiles

void gemm_block(const Gemm& g, int64_t m, int64_t rows, int64_t n, int64_t width) {
  by_element(g.type, [&](auto element) FORGE_LAMBDA {
    using T = decltype(element);
    g.out_type == Element::f32 ? tiles::block<T, float>(g, m, rows, n, width) : tiles::block<T, T>(g, m, rows, n, width);
  });
}

}  // namespace forge::FORGE_ISA

#else

#include "kernels/cpu/parallel.h"
#include "kernels/product/gemm_tiles.h"
#define FORGE_KERNEL_FILE "kernels/product/gemm_tiles_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {

// Of a product on average, up to which MKL's faster tiles lose more by calling the threads together for each: docs/decisions.md, "experts in a group".
constexpr double kSharedOperations = 4e6;

bool gemm_tiles_work(Element type, CpuLevel level) { return type == Element::f32 && level >= CpuLevel::avx2; }

bool gemm_tiles_pay(Element type, CpuLevel level) {
  if (type == Element::bf16) return level >= CpuLevel::avx2 && !(level == CpuLevel::avx512_bf16 && fast_pairs());
  return gemm_tiles_work(type, level) && !made_by_intel();
}

namespace {

// The blocks of a result that are taken at a time: equal shares of its rows, so that no thread is left with a sliver.
struct Blocks {
  int64_t rows = 0, across = 0, count = 0;

  explicit Blocks(const Gemm& g) {
    constexpr int64_t kTile = 6;
    if (g.m == 0 || g.n == 0) return;
    const int64_t down = (g.m + kGemmRows - 1) / kGemmRows;
    rows = ((g.m + down - 1) / down + kTile - 1) / kTile * kTile;
    across = (g.n + kGemmColumns - 1) / kGemmColumns, count = down * across;
  }
};

void take_block(const Gemm& g, const Blocks& blocks, int64_t number, CpuLevel level) {
  const int64_t m = number / blocks.across * blocks.rows, n = number % blocks.across * kGemmColumns;
  if (m >= g.m) return;
  const int64_t rows = std::min(blocks.rows, g.m - m), width = std::min(kGemmColumns, g.n - n);
  if (g.k > 0) return FORGE_PICK(level, gemm_block)(g, m, rows, n, width);
  for (int64_t i = m; i < m + rows && !g.add; ++i)
    std::memset(static_cast<char*>(g.out) + (i * g.out_stride + n) * bytes_of(g.out_type), 0, static_cast<size_t>(width * bytes_of(g.out_type)));
}

}  // namespace

void gemm_tiles_cpu(const Gemm& g, CpuLevel level) { gemm_tiles_group_cpu({&g, 1}, level); }

bool gemm_tiles_share(const GemmGroup& group, CpuLevel level) {
  double operations = 0;
  bool own = false;
  for (const Gemm* g = group.products; g < group.products + group.count; ++g) {
    if (g->batch > 1 || !(gemm_tiles_work(g->type, level) || gemm_tiles_pay(g->type, level))) return false;
    own |= g->apart || gemm_tiles_pay(g->type, level);
    operations += 2.0 * static_cast<double>(g->m) * static_cast<double>(g->n) * static_cast<double>(g->k);
  }
  return own || operations < kSharedOperations * static_cast<double>(group.count);
}

void gemm_tiles_group_cpu(const GemmGroup& group, CpuLevel level) {
  int64_t count = 0;
  for (int64_t i = 0; i < group.count; ++i) count += Blocks(group.products[i]).count;
  parallel_tasks(count, [&](int64_t task, int64_t) {
    for (const Gemm* g = group.products;; ++g) {
      const Blocks blocks(*g);
      if (task < blocks.count) return take_block(*g, blocks, task, level);
      task -= blocks.count;
    }
  });
}

}  // namespace forge

#endif
