#pragma once
// 8-bit products on a GPU. QuantizeRows and TransposeBytes are forge's own kernels.
// device_scaled_product has two twins: LibTorch's product (scaled_product_torch.cpp) and the
// emulator's plain loops.
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"
#include "kernels/fp8/fp8_args.h"

namespace forge {

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
