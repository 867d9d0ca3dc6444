#pragma once
// A product with a frozen matrix whose rows are computed independently, on plain memory:
//
//   y_rn = Σ_k x_rk w_nk + bias_n
//
// The sum of an element is taken in an order that depends on `in` alone: a row's result has the
// same bits whatever rows are multiplied with it, and on any number of threads. Decoding relies on
// that: a sequence's tokens do not depend on its neighbours. Sums are in fp32, rounded once. w
// passes once through memory for every few hundred rows. bf16 is multiplied as it is if the
// processor can (and quickly, or for few rows); any other 16-bit x and w are widened, w once for
// all rows of a block. A w in blocks is decoded to fp32 as it passes and multiplied in fp32, also
// if the type has 16 bits; for sixteen of its rows side by side see words_product.h. Operations: 2
// · rows · in · out.
#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"
#include "kernels/quantize/quantize_args.h"

namespace forge {

// The most rows of x and of w that are computed at a time.
constexpr int64_t kBlockRows = 256, kBlockColumns = 64;
// Rows of w that are decoded or widened at a time.
constexpr int64_t kDecodedColumns = 12;
// Row stride, in fp32 numbers, of rows that were widened: whole steps on any instruction set.
constexpr int64_t widened_stride(int64_t in) { return (in + 31) / 32 * 32; }

struct RowProduct {
  Element type = Element::f32;    // of x, w and bias
  Element result = Element::f32;  // of y: the type, or fp32
  int64_t rows = 0, in = 0, out = 0;
  const void* x = nullptr;  // [rows, in]
  int64_t x_stride = 0;
  const void* w = nullptr;     // [out, in] without gaps; null: in blocks
  const void* bias = nullptr;  // [out], or null
  void* y = nullptr;           // [rows, out]
  int64_t y_stride = 0;
  void* workspace = nullptr;
  bool across = false;  // w is [in, out] without gaps
  DequantizeBlocks blocks;  // [out, in], rows_are_blocks(); its out is not read, and its type is fp32
};

int64_t row_product_cpu_workspace(const RowProduct& args);
void row_product_cpu(const RowProduct& args, CpuLevel level = cpu_level());
// Splits pairs of bf16 into fp32 for more than a few rows, as on processors that multiply pairs
// slowly (fast_pairs). The bits are the same.
void row_product_split_cpu(const RowProduct& args, CpuLevel level);

}  // namespace forge
