#ifdef FORGE_ISA

#include "kernels/cpu/gemm.h"

namespace forge::FORGE_ISA {
namespace tiles {

constexpr int64_t kDepth = kPanelDepth, kWidth = kGemmPanel, kHeight = kGemmRows;
static_assert(kWidth % (kTileVectors * kLanes) == 0 && kHeight % kTileRows == 0);

int64_t full_vectors(int64_t width) { return (width + kLanes - 1) / kLanes * kLanes; }

struct Space {
  alignas(64) float b[kDepth * kWidth];
  alignas(64) float a[kHeight * kDepth];
  // Used if the result is of 16 bits or the block's last vector is not full.
  alignas(64) float sums[kHeight * kGemmColumns];
};

// Copies [rows, columns] row by row, with zeros up to a full vector.
template <class T>
void lay_rows(const T* from, int64_t stride, int64_t rows, int64_t columns, float* to, int64_t to_stride) {
  for (int64_t i = 0; i < rows; ++i)
    for_lanes(columns, [&](int64_t j, int n)
                           FORGE_LAMBDA { store(to + i * to_stride + j, load_n(from + i * stride + j, n)); });
}

void scale_panel(float* b, int64_t depth, float factor) {
  for (int64_t i = 0; i < depth * kWidth; i += kLanes) store(b + i, load(b + i) * set(factor));
}

// Adds a tail to the sums `c` of rows [m, m + rows) and columns [n, n + width).
template <class T>
void add_tail(const GemmTail& t, Space& space, int64_t m, int64_t rows, int64_t n, int64_t width, float* c, int64_t ldc) {
  const int64_t end = std::min(n + width, t.column + t.columns);
  for (int64_t k = 0; k < t.k; k += kDepth) {
    const int64_t depth = std::min(kDepth, t.k - k);
    for (int64_t first = std::max(n, t.column), count; first < end; first += count) {
      count = std::min(kWidth, end - first);
      transpose(static_cast<const T*>(t.b) + (first - t.column) * t.b_stride + k, t.b_stride, count, depth, space.b, kWidth);
      if (t.alpha != 1) scale_panel(space.b, depth, t.alpha);
      gemm_panel({depth, t.a_stride, 1, kWidth, ldc, true}, rows, full_vectors(count), t.a + m * t.a_stride + k, space.b, c + first - n, AsItIs{});
    }
  }
}

// Computes rows [m, m + rows) and columns [n, n + width) of the result, of type Y, from operands of
// type T.
template <class T, class Y>
void block(const Gemm& g, int64_t m, int64_t rows, int64_t n, int64_t width) {
  Space space;
  const bool beside = !std::is_same_v<Y, float> || full_vectors(width) != width;
  Y* out = static_cast<Y*>(g.out) + m * g.out_stride + n;
  float* c = space.sums;
  if constexpr (std::is_same_v<Y, float>)
    if (!beside) c = out;
  const int64_t ldc = beside ? kGemmColumns : g.out_stride;
  const T *a = static_cast<const T*>(g.a.data), *b = static_cast<const T*>(g.b.data);
  if (beside && g.add) lay_rows(out, g.out_stride, rows, width, c, kGemmColumns);
  for (int64_t k = 0; k < g.k; k += kDepth) {
    const int64_t depth = std::min(kDepth, g.k - k);
    GemmShape shape{depth, kDepth, 1, kWidth, ldc, k > 0 || g.add};
    const float* left = space.a;
    if (g.a.transposed) {
      lay_rows(a + k * g.a.stride + m, g.a.stride, depth, rows, space.a, kHeight);
      shape.a_row = 1, shape.a_k = kHeight;
    } else if (!std::is_same_v<T, float>) {
      lay_rows(a + m * g.a.stride + k, g.a.stride, rows, depth, space.a, kDepth);
    } else if constexpr (std::is_same_v<T, float>) {
      left = a + m * g.a.stride + k, shape.a_row = g.a.stride;
    }
    for (int64_t at = 0; at < width; at += kWidth) {
      const int64_t columns = std::min(kWidth, width - at);
      if (g.b.transposed)
        transpose(b + (n + at) * g.b.stride + k, g.b.stride, columns, depth, space.b, kWidth);
      else
        lay_rows(b + k * g.b.stride + n + at, g.b.stride, depth, columns, space.b, kWidth);
      if (g.alpha != 1) scale_panel(space.b, depth, g.alpha);
      gemm_panel(shape, rows, full_vectors(columns), left, space.b, c + at, AsItIs{});
    }
  }
  for (const GemmTail* t = g.tails; t < g.tails + g.tail_count; ++t) add_tail<T>(*t, space, m, rows, n, width, c, ldc);
  if (!beside) return;
  for (int64_t r = 0; r < rows; ++r)
    for_lanes(width, [&](int64_t j, int part) FORGE_LAMBDA { store_n(out + r * g.out_stride + j, load(c + r * kGemmColumns + j), part); });
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

// Operations of a product on average, up to which calling the threads together for each product
// costs more than MKL's faster tiles gain. 64 experts of 128, 8 a token, hidden 256, 4 layers, full
// fine-tuning in fp32 on an Intel Xeon with AVX-512, two threads, in turns: sharing has 1.09 times
// the tokens/s with 2 million operations a product (1.02 to 1.15, four pairs) and 0.95 with 17
// million.
constexpr double kSharedOperations = 4e6;

bool gemm_tiles_work(Element type, CpuLevel level) { return type == Element::f32 && level >= CpuLevel::avx2; }

// On other makers' processors MKL takes its AVX2 code: 187 to 210 GFLOP/s of some 550 that two
// cores of an AMD EPYC (Zen 5) have in AVX-512, where these tiles have 390 to 485 and a LoRA step
// of SmolLM2 in fp32 went from 287 to 298 tokens/s to 566 to 590. On an Intel Xeon of model 207
// they are as fast as MKL's by one thread and slower by two. kernels/README.md, "Measured choices",
// has more.
bool gemm_tiles_pay(Element type, CpuLevel level) {
  if (type == Element::bf16) return level >= CpuLevel::avx2 && !(level == CpuLevel::avx512_bf16 && fast_pairs());
  return gemm_tiles_work(type, level) && !made_by_intel();
}

namespace {

// The division of a result into blocks: equal shares of its rows and columns, as few and as large
// as keep all threads busy to the end.
struct Blocks {
  int64_t rows = 0, columns = 0, across = 0, count = 0;

  Blocks(const Gemm& g, int64_t threads) {
    if (g.m == 0 || g.n == 0) return;
    const int64_t panels = pieces(g.n, kGemmPanel), fewest = pieces(g.m, kGemmRows), widest = kGemmColumns / kGemmPanel;
    double best = 0;
    for (int64_t down = fewest; down <= (threads > 1 ? 2 : 1) * fewest; ++down) {
      const bool again = a_costs(g, pieces(g.m, down));
      for (int64_t wide = threads > 1 || !again ? 1 : widest; wide <= (again ? widest : 1); ++wide) {
        const double time = time_of(g.m, down, panels, pieces(panels, wide), again, threads);
        if (count > 0 && time >= best) continue;
        constexpr int64_t kTile = 6;
        best = time, rows = pieces(pieces(g.m, down), kTile) * kTile, across = pieces(panels, wide);
        columns = pieces(panels, across) * kGemmPanel, count = down * across;
      }
    }
  }

 private:
  static int64_t pieces(int64_t count, int64_t size) { return (count + size - 1) / size; }
  // True if each block pays for its rows of a: they are widened, or have left the second-level
  // cache since the last block.
  static bool a_costs(const Gemm& g, int64_t rows) { return g.type != Element::f32 || rows * g.k * static_cast<int64_t>(sizeof(float)) > int64_t{1} << 20; }
  // Returns the time in units of one row of a panel multiplied by a thread: a row of a costs a
  // tenth of that, copying a panel of b as much as ten rows.
  static double time_of(int64_t m, int64_t down, int64_t panels, int64_t across, bool again, int64_t threads) {
    const auto rows = static_cast<double>(pieces(m, down)), wide = static_cast<double>(pieces(panels, across));
    return static_cast<double>(pieces(down * across, threads)) * (rows * (wide + (again ? 0.1 : 0)) + 10 * wide);
  }
};

void take_block(const Gemm& g, const Blocks& blocks, int64_t number, CpuLevel level) {
  const int64_t m = number / blocks.across * blocks.rows, n = number % blocks.across * blocks.columns;
  if (m >= g.m || n >= g.n) return;
  const int64_t rows = std::min(blocks.rows, g.m - m), width = std::min(blocks.columns, g.n - n);
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
  const int64_t threads = group.count > 1 ? 1 : task_threads();
  int64_t count = 0;
  for (int64_t i = 0; i < group.count; ++i) count += Blocks(group.products[i], threads).count;
  parallel_tasks(count, [&](int64_t task, int64_t) {
    for (const Gemm* g = group.products;; ++g) {
      const Blocks blocks(*g, threads);
      if (task < blocks.count) return take_block(*g, blocks, task, level);
      task -= blocks.count;
    }
  });
}

}  // namespace forge

#endif
