#include "kernels/lora/lora_linear.h"

namespace forge {

void lora_linear_forward_cuda(const LoraLinearForward& args, CudaStream stream) {
  lora_linear_forward(args.linear, [=](const Gemm& gemm) { device_gemm(gemm, stream); });
}
void lora_linear_backward_cuda(const LoraLinearBackward& args, CudaStream stream) {
  lora_linear_backward(args, [=](const Gemm& gemm) { device_gemm(gemm, stream); });
}

}  // namespace forge
