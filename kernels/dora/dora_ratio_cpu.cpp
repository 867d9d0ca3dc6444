// DoRA's ratio by LibTorch: B A of some rows is a product, and the norm of rows a reduction.
#include <algorithm>

#include "kernels/device/gemm_tensors.h"
#include "kernels/dora/dora_args.h"

namespace forge {

void dora_ratio_cpu(const DoraRatio& args) {
  c10::NoGradGuard no_grad;
  const auto borrowed = [&](const void* data, at::IntArrayRef shape) {
    return at::from_blob(const_cast<void*>(data), shape, at::TensorOptions().dtype(scalar_of(args.type)));
  };
  const auto floats = at::TensorOptions().dtype(at::kFloat);
  const at::Tensor weight = borrowed(args.weight, {args.out, args.in}),
                   a = borrowed(args.a, {args.rank, args.in}).to(at::kFloat),
                   b = borrowed(args.b, {args.out, args.rank}).to(at::kFloat),
                   magnitude = borrowed(args.magnitude, {args.out}).to(at::kFloat);
  for (int64_t row = 0; row < args.out; row += kRatioRows) {
    const int64_t rows = std::min(kRatioRows, args.out - row);
    at::Tensor block = at::from_blob(args.workspace, {rows, args.in}, floats);
    at::mm_out(block, b.narrow(0, row, rows), a);
    block.mul_(args.scale).add_(weight.narrow(0, row, rows));
    at::Tensor norm = at::from_blob(args.inverse_norm + row, {rows}, floats);
    at::linalg_vector_norm_out(norm, block, 2, at::IntArrayRef{1});
  }
  for (int64_t i = 0; i < args.out; ++i) {
    args.inverse_norm[i] = 1 / args.inverse_norm[i];
    args.ratio[i] = magnitude.const_data_ptr<float>()[i] * args.inverse_norm[i];
  }
}

}  // namespace forge
