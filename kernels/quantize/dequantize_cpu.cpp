// Blocks to values in one pass; 16,384 values, which one scale of nested quantisation covers, at a time.
#include <algorithm>
#include <array>

#include "kernels/cpu/parallel.h"
#include "kernels/quantize/blocks.h"
#include "kernels/quantize/quantize_args.h"

namespace forge {
namespace {

constexpr int64_t kNestedBlocks = 256;  // absmax values that share a scale
constexpr int64_t kStretchesPerTask = 4;

// The absmax of the blocks from `first` on; nested ones are decoded into `scratch`.
const float* absmax_of(const DequantizeBlocks& a, int64_t first, int64_t count,
                       std::array<float, kNestedBlocks>& scratch) {
  if (a.absmax) return a.absmax + first;
  dequantize_8bit(a.absmax_codes + first, a.absmax_scale + first / kNestedBlocks, count, kNestedBlocks, scratch.data());
  for (int64_t i = 0; i < count; ++i) scratch[static_cast<size_t>(i)] += a.absmax_mean;
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
      if (a.four_bit)
        dequantize_4bit(book, a.codes + first / 2, absmax, length, a.block, out + first);
      else
        dequantize_8bit(a.codes + first, absmax, length, a.block, out + first);
    }
  });
}

}  // namespace

std::string dequantize_blocks_cpu_refusal(const DequantizeBlocks& a) {
  if (a.type == Element::f16) return "the loops write fp32 and bf16";
  return a.rows == 1 || a.out_stride == a.columns ? "" : "the loops write rows without gaps";
}

void dequantize_blocks_cpu(const DequantizeBlocks& a) {
  if (a.type == Element::f32)
    dequantize(a, static_cast<float*>(a.out));
  else
    dequantize(a, static_cast<uint16_t*>(a.out));
}

}  // namespace forge
