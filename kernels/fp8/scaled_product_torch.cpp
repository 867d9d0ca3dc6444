// LibTorch's product in 8 bits: cuBLAS on Hopper, CUTLASS from Blackwell on. It wants the first
// factor row by row, the second column by column and scales [m, 1] and [1, n].
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/device/gemm_tensors.h"
#include "kernels/fp8/fp8_args.h"

namespace forge {

void device_scaled_product(const ScaledProduct& p, CudaStream stream) {
  c10::NoGradGuard no_grad;
  c10::StreamGuard on(c10::cuda::getStreamFromExternal(stream, c10::cuda::current_device()));
  const auto borrowed = [](const void* data, at::IntArrayRef shape, int64_t stride, c10::ScalarType type) {
    return at::from_blob(const_cast<void*>(data), shape, {stride, 1}, at::TensorOptions(at::kCUDA).dtype(type));
  };
  at::Tensor out = borrowed(p.out, {p.m, p.n}, p.out_stride, scalar_of(p.type));
  std::optional<at::Tensor> bias;
  if (p.bias) bias = at::from_blob(const_cast<void*>(p.bias), {p.n}, out.options());
  at::_scaled_mm_out(out, borrowed(p.a, {p.m, p.k}, p.a_stride, at::kFloat8_e4m3fn), borrowed(p.b, {p.n, p.k}, p.k, at::kFloat8_e4m3fn).t(),
                     borrowed(p.a_scales, {p.m, 1}, 1, at::kFloat), borrowed(p.b_scales, {1, p.n}, p.n, at::kFloat), bias,
                     /*scale_result=*/std::nullopt, out.scalar_type(), p.quick_sums);
}

}  // namespace forge
