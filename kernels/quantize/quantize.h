#pragma once
// Frozen weights in 4 or 8 bits (Dettmers et al., 8-bit Optimizers via Block-wise Quantization,
// 2022; QLoRA, 2023). Codes, absmax and dequantised values are bit-equal to those of bitsandbytes
// on a CPU.
//
//   QuantizedWeight w = quantize(weight, {.format = QuantizedFormat::nf4, .nested = true});
//   at::Tensor again = dequantize(w, at::kBFloat16);
//
// A weight is cut, in memory order and across rows, into blocks of 64; the last may be shorter. A
// block keeps its largest magnitude, absmax, and for each value the number of the nearest entry c
// of a code book: w ≈ c[code] · absmax.
//   nf4   16 quantiles of a normal distribution; two codes a byte, the first in the high half
//   fp4   sign, two bits of exponent, one of mantissa, over 12
//   int8  the 256 values of the signed dynamic map: a decimal exponent and a fraction (not LLM.int8, which
//   has a scale
//         a row and an int8 product)
//   fp8   E4M3: one block and absmax a row, which is divided by 448 (kernels/fp8)
// Nested (double) quantisation holds absmax itself in 8 bits: absmax − mean in blocks of 256 by the
// dynamic map.
//
// Bits a weight: nf4 and fp4 4.5, nested 4.127; int8 8.5; fp8 8 and 32 a row.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "core/lib/io/book_blocks.h"
#include "kernels/quantize/quantize_args.h"

namespace forge {

enum class QuantizedFormat { nf4, fp4, int8, fp8 };

constexpr int64_t kQuantizedBlock = 64;  // values that share an absmax
constexpr int64_t kNestedBlock = 256;    // absmax values that share a scale

struct QuantizedWeight {
  QuantizedFormat format = QuantizedFormat::nf4;
  int64_t rows = 0, columns = 0;
  at::Tensor codes;         // uint8, [(rows · columns + 1) / 2], int8 and fp8: [rows · columns]
  at::Tensor absmax;        // [blocks], fp32, or uint8 codes when nested; fp8: [rows], over 448
  at::Tensor absmax_scale;  // nested: fp32 [ceil(blocks / 256)], else undefined
  float absmax_mean = 0;    // nested: added to every absmax
  int64_t vanished = 0;     // fp8: values that became zero without being it: less than 1 / 458,752 of their row's largest
  // A GGUF's own blocks, as its file has them, are `codes` whole; format and absmax then say
  // nothing. On a CPU alone.
  std::optional<BlockCoding> stored;

  bool defined() const { return codes.defined(); }
  bool in_bytes() const { return format == QuantizedFormat::int8 || format == QuantizedFormat::fp8; }
  int64_t block() const { return format == QuantizedFormat::fp8 ? columns : kQuantizedBlock; }
  bool nested() const { return absmax_scale.defined(); }
};

struct QuantizeOptions {
  QuantizedFormat format = QuantizedFormat::nf4;
  bool nested = false;
};

// Quantises weight: fp32 [rows, columns], contiguous, on a CPU, every value finite (see
// all_finite).
QuantizedWeight quantize(const at::Tensor& weight, const QuantizeOptions& options);

// Returns [rows, columns] in the blocks that a file holds, code by code. Its absmax is quantised,
// kept or decoded as options.nested says. Nothing if the file's book or blocks are not those of
// `options`.
std::optional<QuantizedWeight> taken(const BookBlocks& blocks, int64_t rows, int64_t columns,
                                     const QuantizeOptions& options);

// Returns [rows, columns] in `type` (fp32, bf16 or fp16), on the codes' device: the fp32 product,
// rounded once.
at::Tensor dequantize(const QuantizedWeight& weight, c10::ScalarType type);
// Like dequantize(), composed of ATen's operations: for other devices, and as the reference of the
// loops' tests.
at::Tensor dequantize_composed(const QuantizedWeight& weight, c10::ScalarType type);

// Returns the code books of nf4, fp4, the dynamic map of bytes and E4M3, one after the other.
std::vector<float> code_books();
// Returns the codes, absmax and books for a kernel; the caller sets results. `books` are those of
// code_books(), in the device's memory; null where the weight is a GGUF's own blocks.
DequantizeBlocks blocks_of(const QuantizedWeight& weight, const float* books = nullptr);

QuantizedWeight to_device(QuantizedWeight weight, c10::Device device);

// True if no value is infinite or NaN. A block with such a value would lose all its others.
bool all_finite(const at::Tensor& weight);

}  // namespace forge
