#pragma once
// Block-wise quantisation on a GPU, bit-equal to blocks.h.
#include "kernels/device/launch.h"
#include "kernels/quantize/quantize_args.h"

namespace forge {

void dequantize_blocks_cuda(const DequantizeBlocks& args, CudaStream stream);
std::string dequantize_blocks_cuda_refusal(const DequantizeBlocks& args);
void quantize_blocks_cuda(const QuantizeBlocks& args, CudaStream stream);

}  // namespace forge
