#include "kernels/attention/attention_cuda.h"

#include <ATen/cuda/CUDAContext.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include "core/base/error.h"
#include "kernels/attention/attention_torch.h"

namespace forge {
namespace {

AttentionKernel kernel_for(const AttentionShape& s, bool backward) {
  const cudaDeviceProp* device = at::cuda::getCurrentDeviceProperties();
  const AttentionChoice choice =
      choose_attention({device->major * 10 + device->minor, s.type, s.head_dim, s.heads, s.sequences,
                        s.tokens, s.longest, s.window, s.softcap, s.sinks != nullptr},
                       backward);
  if (choice.kernel == AttentionKernel::none)
    throw Error(ErrorKind::environment, std::string("attention on ") + device->name + ": " + choice.reason);
  return choice.kernel;
}

// c10's guard, not c10::cuda's: that one is a header of calls to cudart, which the engine does not link.
c10::StreamGuard on(CudaStream stream) {
  return c10::StreamGuard(c10::cuda::getStreamFromExternal(stream, c10::cuda::current_device()));
}

c10::Device current() { return {c10::kCUDA, c10::cuda::current_device()}; }

}  // namespace

void attention_forward_cuda(const AttentionForward& a, CudaStream stream) {
  const c10::StreamGuard guard = on(stream);
  const AttentionKernel kernel = kernel_for(a.shape, /*backward=*/false);
  if (kernel == AttentionKernel::own) return attention_forward_own(a, stream);
  attention_forward_torch(a, kernel, current());
}

void attention_backward_cuda(const AttentionBackward& a, CudaStream stream) {
  const c10::StreamGuard guard = on(stream);
  const AttentionKernel kernel = kernel_for(a.shape, /*backward=*/true);
  if (kernel == AttentionKernel::own) return attention_backward_own(a, stream);
  attention_backward_torch(a, kernel, current());
}

}  // namespace forge
