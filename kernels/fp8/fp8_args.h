#pragma once
// Products in 8 bits with frozen weights, on plain memory. Numbers are E4M3 (e4m3.h), and each row
// has a scale in fp32:
//
//   QuantizeRows    s_i = max_j |x_ij f_j| / 448,   q_ij = e4m3(x_ij f_j / s_i)
//   ScaledProduct   y_ij = a_s_i b_s_j Σ_k a_ik b_jk + bias_j,   or y_ij added to out
//   TransposeBytes  y_ji = x_ij, a weight for d x: Hopper's products need a depth that is
//                   contiguous in both factors
//
// Bytes: QuantizeRows reads x, once from memory and once out of a cache, and writes a byte an
// element; TransposeBytes reads and writes one. Operations of a product: 2 · m · n · k.
//
// A weight is transposed each time that d x needs it, ahead on the second stream, half the bytes of
// decoding nf4; two copies would be as large as bf16.
#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"

namespace forge {

// A row without a magnitude of at least 2⁻¹⁰⁰ becomes zeros with the scale 1. A row with a value
// that is not finite has a scale that is not finite, so that no product hides it. x_ij f_j is
// rounded to fp32 and multiplied with 448 / max, so the bits are the same on every device.
struct QuantizeRows {
  Element type = Element::f32;  // of x
  int64_t rows = 0, columns = 0;
  const void* x = nullptr;
  int64_t x_stride = 0;            // elements
  const float* factors = nullptr;  // f [columns], or null: ones
  uint8_t* codes = nullptr;        // [rows, columns]; may not meet x
  int64_t codes_stride = 0;
  float* scales = nullptr;  // [rows]
};
void quantize_rows_cpu(const QuantizeRows& args);

// Sums are in fp32 and rounded once to out's type. With `add` the product is rounded before it is
// added, and the sum once more.
struct ScaledProduct {
  Element type = Element::f32;  // of out and bias; on a GPU bf16, or on Hopper fp32
  int64_t m = 0, n = 0, k = 0;  // on a GPU multiples of 16, but for m
  const uint8_t* a = nullptr;   // [m, k]
  int64_t a_stride = 0;
  const float* a_scales = nullptr;  // [m]
  const uint8_t* b = nullptr;       // [n, k] without gaps
  const float* b_scales = nullptr;  // [n]
  const void* bias = nullptr;       // [n], or null; not beside `add`, and on a GPU not in fp32
  void* out = nullptr;
  int64_t out_stride = 0;
  bool add = false;
  // A GPU's tensor cores may keep sums in fewer bits than fp32: used in the forward, where
  // activations have been rounded to 8 bits before.
  bool quick_sums = false;
  void* workspace = nullptr;
};
constexpr int64_t kScaledColumns = 512;  // of a result, whose rows of b a CPU decodes together
inline int64_t whole_lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }
// Bytes for a and some rows of b as bf16, and their sums.
inline int64_t scaled_product_cpu_workspace(const ScaledProduct& a) {
  const int64_t columns = std::min(a.n, kScaledColumns);
  return whole_lines(2 * a.m * a.k) + whole_lines(2 * columns * a.k) + 4 * a.m * columns;
}
void scaled_product_cpu(const ScaledProduct& args, CpuLevel level = cpu_level());
// Bytes of the product itself if it is added: it is computed before it is added.
inline int64_t scaled_product_gpu_workspace(const ScaledProduct& a) { return a.add ? a.m * a.n * bytes_of(a.type) : 0; }

struct TransposeBytes {
  int64_t rows = 0, columns = 0;  // of x
  const uint8_t* x = nullptr;     // [rows, columns] without gaps
  uint8_t* y = nullptr;           // [columns, rows] without gaps; may not meet x
};
void transpose_bytes_cpu(const TransposeBytes& args);

// ---- on a GPU
//
// QuantizeRows and TransposeBytes are forge's own kernels. device_scaled_product has two twins:
// LibTorch's product (scaled_product_torch.cpp) and the emulator's plain loops.

void quantize_rows_cuda(const QuantizeRows& args, CudaStream stream);
void transpose_bytes_cuda(const TransposeBytes& args, CudaStream stream);
void scaled_product_cuda(const ScaledProduct& args, CudaStream stream);
inline std::string scaled_product_cuda_refusal(const ScaledProduct& args) {
  if (args.type == Element::f16) return "results of 8-bit products are bf16 or fp32 on a GPU";
  if (args.type == Element::f32 && args.bias) return "8-bit products add a bias in 16 bits alone on a GPU";
  return args.n % 16 == 0 && args.k % 16 == 0 && args.a_stride % 16 == 0 ? "" : "8-bit products want multiples of 16 on a GPU";
}
// Computes a product without `add`.
void device_scaled_product(const ScaledProduct& args, CudaStream stream);

// x is read from memory, and once more out of a cache.
inline GpuLaunches launches(const QuantizeRows& a) {
  return {{"quantize_rows", matrix_bytes(a.type, a.rows, a.columns) + static_cast<double>(a.rows * (a.columns + 4))}};
}
inline GpuLaunches launches(const TransposeBytes& a) {
  const double bytes = 2 * static_cast<double>(a.rows) * static_cast<double>(a.columns);
  return {{"transpose_bytes", bytes, bytes}};
}
// An addition reads the product, which was written apart.
inline GpuLaunches launches(const ScaledProduct& a) {
  const double out = matrix_bytes(a.type, a.m, a.n), weight = static_cast<double>(a.n) * static_cast<double>(a.k + 4);
  GpuLaunches list{{"scaled_product", static_cast<double>(a.m) * static_cast<double>(a.k + 4) + out + weight, weight}};
  if (a.add) list.push_back({"add_rows", 3 * out});
  return list;
}

}  // namespace forge
