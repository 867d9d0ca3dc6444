// Products by LibTorch (MKL, oneDNN), whose operands may have gaps between their rows.
#include "kernels/device/gemm_tensors.h"
#include "kernels/lora/lora_linear.h"

namespace forge {
namespace {

void multiply(const Gemm& g) {
  GemmTensors t = tensors_of(g, at::kCPU);
  // 16-bit factors with an fp32 result: the CPU has no such product in LibTorch. These are the skinny ones.
  if (g.out_type != g.type) t.a = t.a.to(at::kFloat), t.b = t.b.to(at::kFloat);
  at::addmm_out(t.out, t.out, t.a, t.b, g.add ? 1 : 0, g.alpha);
}

}  // namespace

void lora_linear_forward_cpu(const LoraLinearForward& args) {
  c10::NoGradGuard no_grad;
  lora_linear_forward(args.linear, multiply);
}
void lora_linear_backward_cpu(const LoraLinearBackward& args) {
  c10::NoGradGuard no_grad;
  lora_linear_backward(args, multiply);
}

}  // namespace forge
