#pragma once
// Every launcher that has cases, added to a backend; wrap(action) runs one call. A new launcher is one more
// line here.
#include "kernels/optimizer/optimizer_cuda.h"
#include "kernels/rms_norm/rms_norm_cuda.h"
#include "kernels/rope/rope_cuda.h"
#include "kernels/swiglu/swiglu_cuda.h"
#include "tests/kernels/backend.h"

namespace forge::kernel_test {

template <class Wrap>
void add_cuda_launchers(Backend& backend, Wrap wrap) {
  auto add = [&]<class Args>(void (*launcher)(const Args&, CudaStream),
                             std::function<int64_t(const Args&)> workspace = {}) {
    backend.add<Args>([=](const Args& args) { wrap([&] { launcher(args, nullptr); }); }, workspace);
  };
  add(rms_norm_forward_cuda);
  add(rms_norm_backward_cuda);
  add(rope_cuda);
  add(swiglu_forward_cuda);
  add(swiglu_backward_cuda);
  add(gradient_norm_cuda, std::function(gradient_norm_cuda_workspace));
  add(+[](const AdamWUpdate& a, CudaStream s) { adamw_cuda(a, nullptr, s); });
  add(+[](const LionUpdate& a, CudaStream s) { lion_cuda(a, nullptr, s); });
  add(+[](const AdamW8bitUpdate& a, CudaStream s) { adamw_8bit_cuda(a, nullptr, s); });
}

}  // namespace forge::kernel_test
