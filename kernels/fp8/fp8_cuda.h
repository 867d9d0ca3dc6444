#pragma once
// On a GPU. QuantizeRows and TransposeBytes are kernels of our own; device_scaled_product has two twins: LibTorch's product
// (scaled_product_torch.cpp) and the emulator's plain loops.
#include "kernels/device/launch.h"
#include "kernels/fp8/fp8_args.h"

namespace forge {

void quantize_rows_cuda(const QuantizeRows& args, CudaStream stream);
void transpose_bytes_cuda(const TransposeBytes& args, CudaStream stream);
void scaled_product_cuda(const ScaledProduct& args, CudaStream stream);
std::string scaled_product_cuda_refusal(const ScaledProduct& args);
// One that is not added.
void device_scaled_product(const ScaledProduct& args, CudaStream stream);

}  // namespace forge
