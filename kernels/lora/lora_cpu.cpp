// Tiles of 32 tokens × 128 features pass through the cache once: each is multiplied with the small
// factors that all tasks share. Weight gradients are summed per chunk of tokens and then chunk by
// chunk, so threads change nothing.
#ifdef FORGE_ISA
#include "kernels/cpu/gemm.h"

namespace forge::FORGE_ISA {
namespace lora {

// Loads rows × columns of `from` at (row, column) into a tile in fp32; lanes past the columns
// become zero.
template <class T>
void load_tile(const void* from, int64_t stride, int64_t row, int64_t column, int64_t rows, int64_t columns,
               float* tile) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* source = static_cast<const T*>(from) + (row + r) * stride + column;
    for_lanes(columns, [&](int64_t i, int n)
                           FORGE_LAMBDA { store(tile + r * kLoraStride + i, load_n(source + i, n)); });
  }
}

// Writes 0 or 1 / (1 − p) for every element of a tile, from the words of kernels/dropout.
void load_mask(const LoraDropout& d, int64_t row, int64_t column, int64_t rows, int64_t columns,
               float* mask) {
  uint64_t stream = d.stream ^ (static_cast<uint64_t>(*d.step) * 0x9E3779B97F4A7C15ull);
  uint64_t threshold = static_cast<uint64_t>(d.probability * 0x1p32);
  float keep = static_cast<float>(1 / (1 - d.probability));
  for (int64_t r = 0; r < rows; ++r) {
    uint64_t key = d.seed ^ (static_cast<uint64_t>(d.example[row + r]) << 20);
    uint64_t position = static_cast<uint64_t>(d.position[row + r]) << 32;
    for (int64_t i = 0; i < columns; i += 4) {  // a column of a tile is a multiple of four
      auto words = philox(key, stream, position | static_cast<uint64_t>((column + i) / 4));
      for (int64_t j = 0; j < 4; ++j)
        mask[r * kLoraStride + i + j] = words[static_cast<size_t>(j)] < threshold ? 0.0f : keep;
    }
  }
}

void multiply(float* tile, const float* mask, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = r * kLoraStride; i < r * kLoraStride + columns; i += kLanes)
      store(tile + i, load(tile + i) * load(mask + i));
}

// out += factor · mask · sum, in the type, for the `columns` of a tile at `out`; without a mask,
// factor · sum.
template <class T>
struct AddTo {
  T* out;
  int64_t stride, columns;
  float factor;
  const float* mask = nullptr;

  FORGE_INLINE void operator()(F sum, int64_t row, int64_t column) const {
    const F scale = mask ? set(factor) * load(mask + row * kLoraStride + column) : set(factor);
    const auto n = static_cast<int>(std::min<int64_t>(kLanes, columns - column));
    T* to = out + row * stride + column;
    if (n == kLanes)
      store(to, fma(sum, scale, load(to)));
    else if (n > 0)
      store_n(to, fma(sum, scale, load_n(to, n)), n);
  }
  FORGE_INLINE void ahead(int64_t row, int64_t column) const { __builtin_prefetch(out + row * stride + column, 1); }
};

template <class T>
AddTo<T> add_to(void* out, int64_t stride, int64_t row, int64_t column, int64_t columns, float factor, const float* mask = nullptr) {
  return {static_cast<T*>(out) + row * stride + column, stride, columns, factor, mask};
}

// Loads drop(x) of one tile.
template <class T>
void load_dropped(const LoraGroup& g, const LoraScratch& s, int64_t row, int64_t column, int64_t rows,
                  int64_t columns) {
  load_tile<T>(g.x, g.x_stride, row, column, rows, columns, s.tile);
  if (g.dropout.probability <= 0) return;
  load_mask(g.dropout, row, column, rows, columns, s.mask);
  multiply(s.tile, s.mask, rows, columns);
}

int64_t columns_at(int64_t column, int64_t width) { return std::min(kLoraColumns, width - column); }

// Computes S of tokens [row, row + rows).
template <class T>
void sums(const LoraGroup& g, const LoraSpace& space, const LoraScratch& s, int64_t row, int64_t rows) {
  std::fill(s.s, s.s + rows * space.ranks16, 0.0f);
  for (int64_t column = 0; column < g.width; column += kLoraColumns) {
    const int64_t columns = columns_at(column, g.width);
    const float *b = space.a + column * space.ranks16, *x = s.tile;
    int64_t stride = kLoraStride;
    if constexpr (std::is_same_v<T, float>)
      if (g.dropout.probability <= 0) x = static_cast<const float*>(g.x) + row * g.x_stride + column, stride = g.x_stride;
    if (x == s.tile) load_dropped<T>(g, s, row, column, rows, columns);
    gemm(rows, space.ranks16, columns, x, stride, 1, b, space.ranks16, s.s, space.ranks16, true);
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < g.members; ++i)
      std::copy_n(s.s + r * space.ranks16 + i * space.rank16, g.rank,
                  static_cast<float*>(g.s) + ((row + r) * g.members + i) * g.rank);
}

// Adds to a tile of a member's y.
template <class T>
void add_result(const LoraGroup& g, const LoraSpace& space, const LoraScratch& s, int64_t member, int64_t row, int64_t rows,
                int64_t column) {
  const LoraMember& m = g.member[member];
  const int64_t columns = columns_at(column, m.out), ranks = g.members * g.rank;
  gemm(rows, round16(columns), g.rank, static_cast<const float*>(g.s) + row * ranks + member * g.rank, ranks, 1,
       space.b[member] + column, round16(m.out), s.product, kLoraStride, false,
       add_to<T>(m.y, m.y_stride, row, column, columns, g.scale));
}

// Computes one tile of tokens of the backward; weight gradients go to `partial`.
template <class T>
void backward(const LoraBackward& args, const LoraSpace& space, const LoraScratch& s, int64_t row,
              int64_t rows, float* partial) {
  const LoraGroup& g = args.group;
  std::fill(s.s, s.s + rows * space.ranks16, 0.0f);
  std::fill(s.d_s, s.d_s + rows * space.ranks16, 0.0f);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < g.members * g.rank; ++k)
      s.s[r * space.ranks16 + k / g.rank * space.rank16 + k % g.rank] =
          g.scale * static_cast<const float*>(g.s)[(row + r) * g.members * g.rank + k];
  float* d_b = partial + space.ranks16 * space.width16;
  for (int64_t i = 0; i < g.members; ++i) {
    const LoraMember& m = g.member[i];
    for (int64_t column = 0; column < m.out; column += kLoraColumns) {
      int64_t columns = columns_at(column, m.out), at = i * space.rank16;
      load_tile<T>(m.y, m.y_stride, row, column, rows, columns, s.tile);
      gemm(rows, space.rank16, columns, s.tile, kLoraStride, 1, space.b[i] + column * space.rank16,
           space.rank16, s.d_s + at, space.ranks16, true);
      gemm(columns, space.rank16, rows, s.tile, 1, kLoraStride, s.s + at, space.ranks16,
           d_b + column * space.rank16, space.rank16, true);
    }
    d_b += m.out * space.rank16;
  }
  for (int64_t k = 0; k < rows * space.ranks16; k += kLanes) store(s.d_s + k, load(s.d_s + k) * set(g.scale));
  for (int64_t column = 0; column < g.width; column += kLoraColumns) {
    int64_t columns = columns_at(column, g.width);
    load_dropped<T>(g, s, row, column, rows, columns);
    gemm(space.ranks16, round16(columns), rows, s.d_s, 1, space.ranks16, s.tile, kLoraStride,
         partial + column, space.width16, true);
    if (!args.d_x) continue;
    gemm(rows, round16(columns), space.ranks16, s.d_s, space.ranks16, 1, space.a + column, space.width16,
         s.product, kLoraStride, false,
         add_to<T>(args.d_x, args.d_x_stride, row, column, columns, 1, g.dropout.probability > 0 ? s.mask : nullptr));
  }
}

// to[i, j] = from[i, j], [rows, columns].
template <class T>
void widen(const T* from, int64_t ld, int64_t rows, int64_t columns, float* to, int64_t to_ld) {
  for (int64_t i = 0; i < rows; ++i)
    for_lanes(columns, [&](int64_t j, int n) FORGE_LAMBDA { store_n(to + i * to_ld + j, load_n(from + i * ld + j, n), n); });
}

// Writes features [first, first + count) of A in fp32 with padding, transposed for the forward.
template <class T>
void place_a(const LoraGroup& g, const LoraSpace& space, bool back, int64_t first, int64_t count) {
  for (int64_t i = 0; i < g.members; ++i) {
    const T* a = static_cast<const T*>(g.a) + i * g.rank * g.width + first;
    float* to = space.a + (back ? i * space.rank16 * space.width16 + first : first * space.ranks16 + i * space.rank16);
    const int64_t lines = back ? space.rank16 : round16(count), width = back ? round16(count) : space.rank16,
                  stride = back ? space.width16 : space.ranks16;
    for (int64_t line = 0; line < lines; ++line) std::fill_n(to + line * stride, width, 0.0f);
    if (back)
      widen(a, g.width, g.rank, count, to, stride);
    else
      transpose(a, g.width, g.rank, count, to, stride);
  }
}

// Like place_a(), for a member's B.
template <class T>
void place_b(const LoraGroup& g, const LoraSpace& space, bool back, int64_t member, int64_t first, int64_t count) {
  const int64_t out16 = round16(g.member[member].out), lines = back ? round16(count) : space.rank16,
                width = back ? space.rank16 : round16(count), stride = back ? space.rank16 : out16;
  const T* b = static_cast<const T*>(g.member[member].b) + first * g.rank;
  float* to = space.b[member] + (back ? first * space.rank16 : first);
  for (int64_t line = 0; line < lines; ++line) std::fill_n(to + line * stride, width, 0.0f);
  if (back)
    widen(b, g.rank, count, g.rank, to, stride);
  else
    transpose(b, g.rank, count, g.rank, to, stride);
}

template <class T>
void backward_chunk(const LoraBackward& args, const LoraSpace& space, const LoraScratch& s, int64_t chunk) {
  float* partial = space.partial + chunk * space.partial_floats;
  std::fill(partial, partial + space.partial_floats, 0.0f);
  int64_t end = std::min(args.group.tokens, (chunk + 1) * space.chunk);
  for (int64_t row = chunk * space.chunk; row < end; row += kLoraRows)
    backward<T>(args, space, s, row, std::min(kLoraRows, end - row), partial);
}

}  // namespace lora

// Writes a piece of A (member −1) or of a member's B.
void lora_factors(const LoraGroup& g, const LoraSpace& space, bool back, int64_t member, int64_t first, int64_t count) {
  by_element(g.type, [&](auto element) FORGE_LAMBDA {
    using T = decltype(element);
    member < 0 ? lora::place_a<T>(g, space, back, first, count) : lora::place_b<T>(g, space, back, member, first, count);
  });
}

}  // namespace forge::FORGE_ISA

#else

#include "core/lib/base/ceil_div.h"
#include "core/lib/base/random.h"
#include "kernels/cpu/parallel.h"
#include "kernels/lora/lora_args.h"
#include "kernels/lora/lora_space.h"
#define FORGE_KERNEL_FILE "kernels/lora/lora_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {
namespace {

// Adds to[i, :columns] += Σ chunks partial[i, :columns], in the order of the chunks.
void add_partials(const LoraSpace& space, int64_t offset, int64_t rows, int64_t columns, int64_t stride,
                  float* to) {
  parallel_ranges(rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t chunk = 0; chunk < space.chunks; ++chunk) {
      const float* partial = space.partial + chunk * space.partial_floats + offset;
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < columns; ++j) to[i * columns + j] += partial[i * stride + j];
    }
  });
}

// Returns a task that calls work(member, column, columns) for column blocks of A (member −1, if
// asked for) and of all members' B or y.
template <class Work>
auto each_block(const LoraGroup& g, bool with_a, Work work) {
  return [&g, with_a, work](int64_t task, auto... more) {
    for (int64_t member = with_a ? -1 : 0; member < g.members; ++member) {
      const int64_t width = member < 0 ? g.width : g.member[member].out, count = ceil_div(width, kLoraColumns);
      if (task < count) return work(member, task * kLoraColumns, std::min(kLoraColumns, width - task * kLoraColumns), more...);
      task -= count;
    }
  };
}
int64_t blocks(const LoraGroup& g, bool with_a) {
  int64_t count = with_a ? ceil_div(g.width, kLoraColumns) : 0;
  for (int64_t member = 0; member < g.members; ++member) count += ceil_div(g.member[member].out, kLoraColumns);
  return count;
}

}  // namespace

int64_t lora_forward_cpu_workspace(const LoraForward& args) {
  return lora_space(args.group, false, nullptr, task_threads()).bytes;
}

// A decoder's few rows are shared out like a batch's many. The division does not change the bits:
// each sum runs over all features in order.
void lora_forward_cpu(const LoraForward& args, CpuLevel level) {
  const LoraGroup& g = args.group;
  const LoraSpace space = lora_space(g, false, args.workspace, task_threads());
  const auto factors = FORGE_PICK(level, lora_factors);
  const auto sums = FORGE_PICK_OF(level, g.type, lora::sums);
  const auto add = FORGE_PICK_OF(level, g.type, lora::add_result);
  const bool adds = g.member[0].y != nullptr;
  const int64_t rows = std::clamp<int64_t>(ceil_div(g.tokens, task_threads()), 1, kLoraRows), columns = blocks(g, false);
  // With many rows a thread takes whole rows, since neighbouring columns come from memory together.
  const int64_t shares = ceil_div(g.tokens, kLoraRows) >= 4 * task_threads() ? 1 : columns, each = ceil_div(columns, shares);
  parallel_phases(
      TaskPhase{blocks(g, true) - (adds ? 0 : columns), each_block(g, true, [&](int64_t member, int64_t first, int64_t count, int64_t) {
                  factors(g, space, false, member, first, count);
                })},
      TaskPhase{ceil_div(g.tokens, rows), [&](int64_t task, int64_t thread) {
                  sums(g, space, space.scratch(thread), task * rows, std::min(rows, g.tokens - task * rows));
                }},
      TaskPhase{adds ? ceil_div(g.tokens, kLoraRows) * shares : 0, [&](int64_t task, int64_t thread) {
                  const int64_t row = task / shares * kLoraRows, first = task % shares * each;
                  for (int64_t column = first; column < std::min(first + each, columns); ++column)
                    each_block(g, false, [&](int64_t member, int64_t at, int64_t) {
                      add(g, space, space.scratch(thread), member, row, std::min(kLoraRows, g.tokens - row), at);
                    })(column);
                }});
}

int64_t lora_backward_cpu_workspace(const LoraBackward& args) {
  return lora_space(args.group, true, nullptr, task_threads()).bytes;
}

void lora_backward_cpu(const LoraBackward& args, CpuLevel level) {
  const LoraGroup& g = args.group;
  LoraSpace space = lora_space(g, true, args.workspace, task_threads());
  auto factors = FORGE_PICK(level, lora_factors);
  auto chunk = FORGE_PICK_OF(level, g.type, lora::backward_chunk);
  parallel_phases(
      TaskPhase{blocks(g, true), each_block(g, true, [&](int64_t member, int64_t first, int64_t count, int64_t) {
                  factors(g, space, true, member, first, count);
                })},
      TaskPhase{space.chunks, [&](int64_t index, int64_t thread) { chunk(args, space, space.scratch(thread), index); }});
  int64_t offset = space.ranks16 * space.width16;
  for (int64_t i = 0; i < g.members; ++i) {
    add_partials(space, i * space.rank16 * space.width16, g.rank, g.width, space.width16,
                 args.d_a + i * g.rank * g.width);
    add_partials(space, offset, g.member[i].out, g.rank, space.rank16, g.member[i].d_b);
    offset += g.member[i].out * space.rank16;
  }
}

}  // namespace forge

#endif
