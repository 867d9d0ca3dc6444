// Tiles of 64 tokens × 128 features pass through the cache once: each is multiplied with the small factors
// that all tasks share. Weight gradients are summed per chunk of tokens and then chunk by chunk, so threads
// change nothing.
#ifdef FORGE_ISA
#include "kernels/cpu/gemm.h"

namespace forge::FORGE_ISA {
namespace lora {

// rows × columns of `from` at (row, column) into a tile in fp32; lanes past the columns become zero.
template <class T>
void load_tile(const void* from, int64_t stride, int64_t row, int64_t column, int64_t rows, int64_t columns,
               float* tile) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* source = static_cast<const T*>(from) + (row + r) * stride + column;
    for_lanes(columns, [&](int64_t i, int n)
                           FORGE_LAMBDA { store(tile + r * kLoraStride + i, load_n(source + i, n)); });
  }
}

// 0 or 1 / (1 − p) for every element of a tile: the words of kernels/dropout.
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

// out += factor · product, in the type.
template <class T>
void add_tile(const float* product, float factor, int64_t rows, int64_t columns, void* out, int64_t stride,
              int64_t row, int64_t column) {
  for (int64_t r = 0; r < rows; ++r) {
    T* target = static_cast<T*>(out) + (row + r) * stride + column;
    for_lanes(columns, [&](int64_t i, int n) FORGE_LAMBDA {
      store_n(target + i, fma(load_n(product + r * kLoraStride + i, n), set(factor), load_n(target + i, n)),
              n);
    });
  }
}

// drop(x) of one tile.
template <class T>
void load_dropped(const LoraGroup& g, const LoraScratch& s, int64_t row, int64_t column, int64_t rows,
                  int64_t columns) {
  load_tile<T>(g.x, g.x_stride, row, column, rows, columns, s.tile);
  if (g.dropout.probability <= 0) return;
  load_mask(g.dropout, row, column, rows, columns, s.mask);
  multiply(s.tile, s.mask, rows, columns);
}

int64_t columns_at(int64_t column, int64_t width) { return std::min(kLoraColumns, width - column); }

// Tokens [row, row + rows): S, then every y.
template <class T>
void forward(const LoraGroup& g, const LoraSpace& space, const LoraScratch& s, int64_t row, int64_t rows) {
  std::fill(s.s, s.s + rows * space.ranks16, 0.0f);
  for (int64_t column = 0; column < g.width; column += kLoraColumns) {
    int64_t columns = columns_at(column, g.width);
    load_dropped<T>(g, s, row, column, rows, columns);
    gemm(rows, space.ranks16, columns, s.tile, kLoraStride, 1, space.a + column * space.ranks16,
         space.ranks16, s.s, space.ranks16, true);
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < g.members; ++i)
      std::copy_n(s.s + r * space.ranks16 + i * space.rank16, g.rank,
                  static_cast<float*>(g.s) + ((row + r) * g.members + i) * g.rank);
  for (int64_t i = 0; i < g.members; ++i) {
    const LoraMember& m = g.member[i];
    for (int64_t column = 0; column < m.out; column += kLoraColumns) {
      int64_t columns = columns_at(column, m.out);
      gemm(rows, round16(columns), g.rank, s.s + i * space.rank16, space.ranks16, 1, space.b[i] + column,
           round16(m.out), s.product, kLoraStride, false);
      add_tile<T>(s.product, g.scale, rows, columns, m.y, m.y_stride, row, column);
    }
  }
}

// One tile of tokens of the backward; weight gradients go to `partial`.
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
         s.product, kLoraStride, false);
    if (g.dropout.probability > 0) multiply(s.product, s.mask, rows, columns);
    add_tile<T>(s.product, 1.0f, rows, columns, args.d_x, args.d_x_stride, row, column);
  }
}

// to[i, j] = from[i, j], [rows, columns] without gaps.
template <class T>
void widen(const T* from, int64_t rows, int64_t columns, float* to, int64_t to_ld) {
  for (int64_t i = 0; i < rows; ++i)
    for_lanes(columns, [&](int64_t j, int n) FORGE_LAMBDA { store_n(to + i * to_ld + j, load_n(from + i * columns + j, n), n); });
}

// A and B in fp32 with padding, turned for the direction.
template <class T>
void place_factors(const LoraGroup& g, const LoraSpace& space, bool back) {
  std::fill(space.a, space.a + std::max(g.width, space.width16) * space.ranks16, 0.0f);
  for (int64_t i = 0; i < g.members; ++i) {
    const T *a = static_cast<const T*>(g.a) + i * g.rank * g.width, *b = static_cast<const T*>(g.member[i].b);
    const int64_t first = i * space.rank16, out = g.member[i].out, out16 = round16(out);
    std::fill(space.b[i], space.b[i] + out16 * space.rank16, 0.0f);
    if (back) {
      widen(a, g.rank, g.width, space.a + first * space.width16, space.width16);
      widen(b, out, g.rank, space.b[i], space.rank16);
    } else {
      transpose(a, g.width, g.rank, g.width, space.a + first, space.ranks16);
      transpose(b, g.rank, out, g.rank, space.b[i], out16);
    }
  }
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

void lora_factors(const LoraGroup& g, const LoraSpace& space, bool back) {
  by_element(g.type, [&](auto element) FORGE_LAMBDA { lora::place_factors<decltype(element)>(g, space, back); });
}
void lora_forward_tile(const LoraGroup& g, const LoraSpace& space, const LoraScratch& s, int64_t row,
                       int64_t rows) {
  by_element(g.type, [&](auto element) FORGE_LAMBDA { lora::forward<decltype(element)>(g, space, s, row, rows); });
}
void lora_backward_chunk(const LoraBackward& args, const LoraSpace& space, const LoraScratch& s,
                         int64_t chunk) {
  by_element(args.group.type, [&](auto element) FORGE_LAMBDA { lora::backward_chunk<decltype(element)>(args, space, s, chunk); });
}

}  // namespace forge::FORGE_ISA

#else

#include "core/base/random.h"
#include "kernels/cpu/parallel.h"
#include "kernels/lora/lora_args.h"
#include "kernels/lora/lora_space.h"
#define FORGE_KERNEL_FILE "kernels/lora/lora_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {
namespace {

// to[i, :columns] += Σ chunks partial[i, :columns], in the order of the chunks.
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

}  // namespace

int64_t lora_forward_cpu_workspace(const LoraForward& args) {
  return lora_space(args.group, false, nullptr, task_threads()).bytes;
}

void lora_forward_cpu(const LoraForward& args, CpuLevel level) {
  LoraSpace space = lora_space(args.group, false, args.workspace, task_threads());
  auto factors = FORGE_PICK(level, lora_factors);
  auto tile = FORGE_PICK(level, lora_forward_tile);
  factors(args.group, space, false);
  parallel_tasks((args.group.tokens + kLoraRows - 1) / kLoraRows, [&](int64_t index, int64_t thread) {
    int64_t row = index * kLoraRows;
    tile(args.group, space, space.scratch(thread), row, std::min(kLoraRows, args.group.tokens - row));
  });
}

int64_t lora_backward_cpu_workspace(const LoraBackward& args) {
  return lora_space(args.group, true, nullptr, task_threads()).bytes;
}

void lora_backward_cpu(const LoraBackward& args, CpuLevel level) {
  const LoraGroup& g = args.group;
  LoraSpace space = lora_space(g, true, args.workspace, task_threads());
  auto factors = FORGE_PICK(level, lora_factors);
  auto chunk = FORGE_PICK(level, lora_backward_chunk);
  factors(g, space, true);
  parallel_tasks(space.chunks,
                 [&](int64_t index, int64_t thread) { chunk(args, space, space.scratch(thread), index); });
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
