// Decodes blocks to values in one pass: rows of whole blocks by themselves, others 16,384 values at
// a time, which share one scale of nested quantisation.
#ifdef FORGE_ISA

#include "kernels/quantize/chunks.h"

namespace forge::FORGE_ISA {

// Decodes rows [begin, end) and prefetches as many rows after them, for callers that multiply
// between calls.
void decode_rows(const DequantizeBlocks& a, int64_t begin, int64_t end, void* out, int64_t stride) {
  by_element(a.type, [&](auto element) FORGE_LAMBDA {
    by_coding(a.coding, [&](auto coding) FORGE_LAMBDA {
      for (int64_t row = begin; row < end; ++row) {
        const Chunks<decltype(coding)::value> chunks(a, row);
        auto* to = static_cast<decltype(element)*>(out) + (row - begin) * stride;
        for (int64_t chunk = 0; chunk < a.columns / 32; ++chunk, to += 32) {
          alignas(64) float values[32];
          chunks.read(chunk, values);
          chunks.ask(chunk, end - begin);
          for (int i = 0; i < 32; i += kLanes) store(to + i, load(values + i));
        }
      }
    });
  });
}

}  // namespace forge::FORGE_ISA

#else

#include <algorithm>
#include <array>
#include <span>

#include "kernels/cpu/parallel.h"
#include "kernels/quantize/blocks.h"
#include "kernels/quantize/quantize_args.h"
#define FORGE_KERNEL_FILE "kernels/quantize/dequantize_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {
namespace {

constexpr int64_t kNestedBlocks = 256;  // absmax values that share a scale
constexpr int64_t kStretchesPerTask = 4;

// Returns the absmax of the blocks from `first` on; nested ones are decoded into `scratch`.
const float* absmax_of(const DequantizeBlocks& a, int64_t first, int64_t count,
                       std::array<float, kNestedBlocks>& scratch) {
  if (a.absmax) return a.absmax + first;
  dequantize_8bit(a.absmax_codes + first, a.absmax_scale + first / kNestedBlocks, count, kNestedBlocks, scratch.data());
  for (float& absmax : std::span(scratch.data(), static_cast<size_t>(count))) absmax += a.absmax_mean;
  return scratch.data();
}

template <class T>
void dequantize(const DequantizeBlocks& a, T* out) {
  const int64_t count = a.rows * a.columns, blocks = (count + a.block - 1) / a.block;
  const auto& book = *reinterpret_cast<const FourBitBook*>(a.book);
  parallel_ranges((blocks + kNestedBlocks - 1) / kNestedBlocks, kStretchesPerTask, [&](int64_t begin, int64_t end) {
    std::array<float, kNestedBlocks> scratch;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t block = i * kNestedBlocks, first = block * a.block,
                    length = std::min(kNestedBlocks * a.block, count - first);
      const float* absmax = absmax_of(a, block, std::min(kNestedBlocks, blocks - block), scratch);
      if (a.coding == BlockCoding::four_bits)
        dequantize_4bit(book, a.codes + first / 2, absmax, length, a.block, out + first);
      else
        dequantize_8bit(a.codes + first, absmax, length, a.block, out + first);
    }
  });
}

}  // namespace

DecodeRows decode_rows_of(CpuLevel level) { return FORGE_PICK(level, decode_rows); }

std::string dequantize_blocks_cpu_refusal(const DequantizeBlocks& a) {
  if (rows_are_blocks(a)) return "";
  if (a.type == Element::f16) return "the loops write fp32 and bf16";
  return a.rows == 1 || a.out_stride == a.columns ? "" : "the loops write rows without gaps";
}

void dequantize_blocks_cpu(const DequantizeBlocks& a, CpuLevel level) {
  if (rows_are_blocks(a)) {
    const DecodeRows rows = decode_rows_of(level);
    constexpr int64_t kValuesPerTask = 1 << 16;
    const int64_t together = std::max<int64_t>(1, kValuesPerTask / std::max<int64_t>(1, a.columns));
    return parallel_ranges(a.rows, together, [&](int64_t begin, int64_t end) {
      rows(a, begin, end, static_cast<char*>(a.out) + begin * a.out_stride * bytes_of(a.type), a.out_stride);
    });
  }
  if (a.type == Element::f32)
    dequantize(a, static_cast<float*>(a.out));
  else
    dequantize(a, static_cast<uint16_t*>(a.out));
}

}  // namespace forge

#endif
