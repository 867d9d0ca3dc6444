#pragma once
// Block-wise quantisation on a GPU, bit-equal to blocks.h.
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"
#include "kernels/quantize/quantize_args.h"

namespace forge {

void dequantize_blocks_cuda(const DequantizeBlocks& args, CudaStream stream);
std::string dequantize_blocks_cuda_refusal(const DequantizeBlocks& args);
inline GpuLaunches launches(const DequantizeBlocks& a) {
  constexpr double kStored = 0.56;  // bytes of a 4-bit weight with its share of absmax
  const double bytes = (static_cast<double>(bytes_of(a.type)) + kStored) * static_cast<double>(a.rows * a.columns);
  return {{"dequantize", bytes, bytes}};
}
void quantize_blocks_cuda(const QuantizeBlocks& args, CudaStream stream);

}  // namespace forge
