// LibTorch's product on a GPU: cuBLAS with the handle, workspace and heuristics that the rest of
// the engine uses.
#include <ATen/cuda/CUDAContext.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <dlfcn.h>

#include "core/lib/base/error.h"
#include "kernels/device/gemm_lt.h"
#include "kernels/device/gemm_tensors.h"

namespace forge {

namespace {

// Computes a product of 16-bit factors with an fp32 result. LibTorch has such products since 2.8;
// before, cuBLASLt computes them, on the cards that CUDA 13 no longer supports.
template <class Tensor>
void wide(int gpu, const Gemm& g, const Tensor& a, const Tensor& b, const Tensor& c, Tensor& out, CudaStream stream) {
  const double beta = g.add ? 1 : 0;
  if constexpr (requires { at::addmm_out(out, c, a, b, at::kFloat, beta, g.alpha); })
    at::addmm_out(out, c, a, b, at::kFloat, beta, g.alpha);
  else if (!gemm_lt(gpu, g, stream))
    at::addmm_out(out, c, a.to(at::kFloat), b.to(at::kFloat), beta, g.alpha);
}

template <class Tensor>
void several_wide(const Gemm& g, const Tensor& a, const Tensor& b, Tensor& out, CudaStream stream) {
  const double beta = g.add ? 1 : 0;
  if constexpr (requires { at::baddbmm_out(out, out, a, b, at::kFloat, beta, g.alpha); })
    at::baddbmm_out(out, out, a, b, at::kFloat, beta, g.alpha);
  else
    for (int64_t i = 0; i < g.batch; ++i) device_gemm(g.one(i), stream);
}

// Makes cuBLAS add in fp32 while the object lives. LibTorch asks for that when it multiplies two
// matrices (core/lib/tensor/cuda.cpp), and forgets it when it multiplies several at once.
class SumsInFp32 {
 public:
  SumsInFp32() {
    FORGE_CHECK(set(CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION), "cuBLAS does not let its sums be chosen");
  }
  ~SumsInFp32() { set(CUBLAS_DEFAULT_MATH); }
  SumsInFp32(const SumsInFp32&) = delete;

 private:
  // LibTorch's CUDA half loads cuBLAS; it need not be there when the engine is linked.
  bool set(cublasMath_t mode) {
    static const auto set_mode = reinterpret_cast<decltype(&cublasSetMathMode)>(dlsym(RTLD_DEFAULT, "cublasSetMathMode"));
    return set_mode && set_mode(handle_, mode) == CUBLAS_STATUS_SUCCESS;
  }
  cublasHandle_t handle_ = at::cuda::getCurrentCUDABlasHandle();
};

void several(const Gemm& g, CudaStream stream) {
  FORGE_CHECK(!g.c, "several products with an addend of their own");
  const SumsInFp32 sums;
  GemmTensors t = batch_of(g, at::kCUDA);
  if (g.out_type == g.type)
    at::baddbmm_out(t.out, t.out, t.a, t.b, g.add ? 1 : 0, g.alpha);
  else
    several_wide(g, t.a, t.b, t.out, stream);
}

}  // namespace

void device_gemm(const Gemm& g, CudaStream stream) {
  FORGE_CHECK(g.tail_count == 0, "a GPU's product with tails");
  c10::NoGradGuard no_grad;
  const c10::DeviceIndex gpu = c10::cuda::current_device();
  c10::StreamGuard on(c10::cuda::getStreamFromExternal(stream, gpu));
  if (g.batch > 1) return several(g, stream);
  if (g.add && g.c && gemm_lt(gpu, g, stream)) return;
  GemmTensors t = tensors_of(g, at::kCUDA);
  if (g.out_type == g.type)
    at::addmm_out(t.out, t.c, t.a, t.b, g.add ? 1 : 0, g.alpha);
  else
    wide(gpu, g, t.a, t.b, t.c, t.out, stream);
}

}  // namespace forge
