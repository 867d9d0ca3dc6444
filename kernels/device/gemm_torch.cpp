// LibTorch's product on a GPU: cuBLAS with the handle, workspace and heuristics that the rest of the engine
// uses.
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include "core/base/error.h"
#include "kernels/device/gemm_lt.h"
#include "kernels/device/gemm_tensors.h"

namespace forge {

namespace {

void several(const Gemm& g) {
  FORGE_CHECK(!g.c, "several products with an addend of their own");
  GemmTensors t = batch_of(g, at::kCUDA);
  if (g.out_type == g.type)
    at::baddbmm_out(t.out, t.out, t.a, t.b, g.add ? 1 : 0, g.alpha);
  else
    at::baddbmm_out(t.out, t.out, t.a, t.b, scalar_of(g.out_type), g.add ? 1 : 0, g.alpha);
}

}  // namespace

void device_gemm(const Gemm& g, CudaStream stream) {
  c10::NoGradGuard no_grad;
  const c10::DeviceIndex gpu = c10::cuda::current_device();
  c10::StreamGuard on(c10::cuda::getStreamFromExternal(stream, gpu));
  if (g.batch > 1) return several(g);
  if (g.add && g.c && gemm_lt(gpu, g, stream)) return;
  GemmTensors t = tensors_of(g, at::kCUDA);
  if (g.out_type == g.type)
    at::addmm_out(t.out, t.c, t.a, t.b, g.add ? 1 : 0, g.alpha);
  else
    at::addmm_out(t.out, t.c, t.a, t.b, scalar_of(g.out_type), g.add ? 1 : 0, g.alpha);
}

}  // namespace forge
