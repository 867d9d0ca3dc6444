#include "kernels/lora/lora_cuda.h"

namespace forge {
namespace {

template <class Args>
void enqueue(const Args& args, CudaStream stream) {
  struct {
    CudaStream stream;
    void operator()(const Gemm& work) const { device_gemm(work, stream); }
    void operator()(const CounterDropout& work) const { counter_dropout_cuda(work, stream); }
    void operator()(const ConvertElements& work) const { convert_elements_cuda(work, stream); }
  } const run{stream};
  if (args.group.tokens > 0) each_work(args, run);
}

}  // namespace

void lora_forward_cuda(const LoraForward& args, CudaStream stream) { enqueue(args, stream); }
void lora_backward_cuda(const LoraBackward& args, CudaStream stream) { enqueue(args, stream); }

}  // namespace forge
