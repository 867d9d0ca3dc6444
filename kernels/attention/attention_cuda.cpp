#include "kernels/attention/attention_cuda.h"

#include <ATen/cuda/CUDAContext.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include "core/lib/base/error.h"
#include "kernels/attention/attention_torch.h"

namespace forge {
namespace {

template <class Args>
AttentionKernel kernel_for(const Args& args, bool backward) {
  const cudaDeviceProp* device = at::cuda::getCurrentDeviceProperties();
  const AttentionChoice choice = attention_choice_of(args, device->major * 10 + device->minor, backward);
  if (choice.kernel == AttentionKernel::none)
    throw Error(ErrorKind::environment, std::string("attention on ") + device->name + ": " + choice.reason);
  return choice.kernel;
}

// Uses c10's guard, not c10::cuda's, which is a header of calls to cudart, which the engine does
// not link.
c10::StreamGuard on(CudaStream stream) {
  return c10::StreamGuard(c10::cuda::getStreamFromExternal(stream, c10::cuda::current_device()));
}

c10::Device current() { return {c10::kCUDA, c10::cuda::current_device()}; }

}  // namespace

void attention_forward_cuda(const AttentionForward& a, CudaStream stream) {
  const AttentionKernel kernel = kernel_for(a, /*backward=*/false);
  if (kernel == AttentionKernel::own) return attention_forward_own(a, stream);
  if (kernel == AttentionKernel::flash) return attention_forward_flash(a, stream);
  const c10::StreamGuard guard = on(stream);
  attention_forward_torch(a, current());
}

void attention_backward_cuda(const AttentionBackward& a, CudaStream stream) {
  const AttentionKernel kernel = kernel_for(a, /*backward=*/true);
  if (kernel == AttentionKernel::own) return attention_backward_own(a, stream);
  if (kernel == AttentionKernel::flash) return attention_backward_flash(a, stream);
  const c10::StreamGuard guard = on(stream);
  attention_backward_torch(a, current());
}

}  // namespace forge
