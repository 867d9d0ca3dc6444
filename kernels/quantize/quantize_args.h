#pragma once
// Block-wise quantisation on plain memory; the formats are described in quantize.h.
//
// Code books and limits are small arrays where the kernel runs, made once by the caller from
// blocks.h. Bytes a weight: dequantising reads 0.5 (int8: 1) and the absmax, 1/16 or nested 1/64,
// and writes the element. Bit for bit: every operation is rounded by itself.
#include <cstdint>
#include <string>

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"

namespace forge {

// The layout of a weight's bytes. By book: codes and absmax apart; `four_bits` has two codes a
// byte, the first in the high half. The others are GGUF's block types as in a file (ggml-common.h
// of llama.cpp; chunks.h): a row is whole blocks. `_by_16`: blocks of sixteen rows side by side
// (by_16.h).
enum class BlockCoding { four_bits, eight_bits, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k, q8_0_by_16, q4_0_by_16 };

// Bytes of the numbers of nf4, fp4, the dynamic map and E4M3 (code_books() in quantize.h).
constexpr int64_t kCodeBookBytes = 4 * (16 + 16 + 256 + 256);

inline bool by_book(BlockCoding coding) { return coding <= BlockCoding::eight_bits; }

// One launch decodes a weight, nested absmax included, into rows of any stride (the workspace of a
// K-concatenated GEMM). GPUs support the codings by book alone.
struct DequantizeBlocks {
  Element type = Element::bf16;  // of out
  BlockCoding coding = BlockCoding::four_bits;
  int64_t rows = 0, columns = 0;
  int64_t block = 64;  // values that share an absmax, in memory order across rows; a power of two, or a whole row
  const uint8_t* codes = nullptr;  // of GGUF's types all there is
  const float* book = nullptr;            // [16], or [256] for bytes
  const float* absmax = nullptr;          // [blocks], or null when it is nested:
  const uint8_t* absmax_codes = nullptr;  // [blocks]
  const float* absmax_scale = nullptr;    // [ceil(blocks / 256)]
  const float* absmax_book = nullptr;     // [256], the dynamic map
  float absmax_mean = 0;
  void* out = nullptr;     // [rows, columns]
  int64_t out_stride = 0;  // elements

  bool operator==(const DequantizeBlocks&) const = default;
};

struct QuantizeBlocks {
  bool four_bit = true;
  int64_t count = 0;
  int64_t block = 64;  // 64 or 256
  const float* values = nullptr;
  float subtract = 0;  // from every value first: the mean of a nested absmax
  uint8_t* codes = nullptr;
  float* absmax = nullptr;          // [ceil(count / block)]
  const float* limits = nullptr;    // four bits: [15] of FourBitLimits
  const uint8_t* ranked = nullptr;  // four bits: [16] of FourBitLimits
  const float* book = nullptr;      // bytes: [256], the dynamic map, ascending
};

// True if every row begins a block and is whole runs of 32 values: rows are then decoded by
// themselves.
inline bool rows_are_blocks(const DequantizeBlocks& a) {
  return !by_book(a.coding) || (a.block % 32 == 0 && a.columns % a.block == 0);
}

// Decodes rows [begin, end) of a weight for which rows_are_blocks(), in its type, to `out`,
// `stride` elements apart.
using DecodeRows = void (*)(const DequantizeBlocks& blocks, int64_t begin, int64_t end, void* out, int64_t stride);
DecodeRows decode_rows_of(CpuLevel level);

// Decodes 4 bits by `book`, bytes by the dynamic map alone.
void dequantize_blocks_cpu(const DequantizeBlocks& args, CpuLevel level = cpu_level());
std::string dequantize_blocks_cpu_refusal(const DequantizeBlocks& args);

// ---- on a GPU
//
// Bit-equal to blocks.h.

void dequantize_blocks_cuda(const DequantizeBlocks& args, CudaStream stream);
std::string dequantize_blocks_cuda_refusal(const DequantizeBlocks& args);
inline GpuLaunches launches(const DequantizeBlocks& a) {
  constexpr double kStored = 0.56;  // bytes of a 4-bit weight with its share of absmax
  const double bytes = (static_cast<double>(bytes_of(a.type)) + kStored) * static_cast<double>(a.rows * a.columns);
  return {{"dequantize", bytes, bytes}};
}
void quantize_blocks_cuda(const QuantizeBlocks& args, CudaStream stream);

}  // namespace forge
