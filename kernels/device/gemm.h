#pragma once
// A product of matrices in device memory by the fastest library there. Two twins are linked: cuBLAS
// by way of LibTorch (gemm_torch.cpp), or called directly if the addend is apart from the result
// (gemm_lt.h); and the emulator's plain loops.
#include <algorithm>
#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"

namespace forge {

// An operand, rows `stride` elements apart; read as its transpose when `transposed`.
struct GemmOperand {
  const void* data = nullptr;
  int64_t stride = 0;
  bool transposed = false;
};

// More depth for some columns of a result, whose bounds are multiples of 16: + alpha · a [m, k] · b
// [columns, k]ᵀ.
struct GemmTail {
  int64_t column = 0, columns = 0, k = 0;
  float alpha = 1;
  const float* a = nullptr;
  int64_t a_stride = 0;
  const void* b = nullptr;  // of the factors' type
  int64_t b_stride = 0;
};

// out [m, n] = alpha · a [m, k] · b [k, n] + (add ? c : 0) + tails, where c is out itself if it is
// null. Sums in fp32, rounded once to out's type.
struct Gemm {
  Element type = Element::f32;  // of a and b
  int64_t m = 0, n = 0, k = 0;
  GemmOperand a, b;
  Element out_type = Element::f32;  // the operands' or fp32
  void* out = nullptr;
  int64_t out_stride = 0;
  float alpha = 1;
  bool add = false;
  bool apart = false;  // on a CPU, in fp32: a row's bits are the same in whatever company it comes
  const GemmTail* tails = nullptr;  // on a CPU's own tiles alone (gemm_tiles_pay)
  int64_t tail_count = 0;
  void* workspace = nullptr;  // on a CPU where out is wider than the factors; on a GPU device_gemm_workspace()
  // An addend of out's type that does not overlap out. Supported for one product alone, not for a
  // batch.
  const void* c = nullptr;
  int64_t c_stride = 0;
  // A batch of products of one shape; the steps are elements from one product's operand to the next
  // one's.
  int64_t batch = 1, a_step = 0, b_step = 0, out_step = 0;

  // Returns product number i of the batch alone.
  Gemm one(int64_t i) const {
    const auto moved = [&](const void* data, int64_t step, Element of) { return static_cast<const char*>(data) + i * step * bytes_of(of); };
    Gemm g = *this;
    g.a.data = moved(a.data, a_step, type), g.b.data = moved(b.data, b_step, type);
    g.out = const_cast<char*>(moved(out, out_step, out_type)), g.batch = 1;
    return g;
  }
};
void device_gemm(const Gemm& args, CudaStream stream);
inline GpuLaunches launches(const Gemm& g) {
  GpuLaunch product{"product"};
  const auto add = [&](const void* at, double bytes) {
    product.bytes += static_cast<double>(g.batch) * bytes;
    if (is_of_module(at)) product.weight_bytes += static_cast<double>(g.batch) * bytes;
  };
  add(g.a.data, matrix_bytes(g.type, g.m, g.k));
  add(g.b.data, matrix_bytes(g.type, g.k, g.n));
  add(g.out, (g.add ? 2 : 1) * matrix_bytes(g.out_type, g.m, g.n));
  return {product};
}
// Bytes of the workspace, for fp32 sums of two halves of the depth: as many as 64 tiles of 128 x
// 256 need, half of a large card's multiprocessors. Results of more tiles keep the card busy as
// they are. If an MLP's inner width is 2.7 times the stream's or more, no arena grows by it.
inline int64_t device_gemm_workspace(const Gemm& g) {
  constexpr int64_t kMost = int64_t{16} << 20;
  return g.add && g.c ? std::min<int64_t>(kMost, 2 * 4 * g.m * g.n) : 0;
}

// Products that do not wait for one another, such as those of experts.
struct GemmGroup {
  const Gemm* products = nullptr;
  int64_t count = 0;
};
// Runs the products one after the other.
inline void device_gemm_group(const GemmGroup& args, CudaStream stream) {
  for (int64_t i = 0; i < args.count; ++i) device_gemm(args.products[i], stream);
}

}  // namespace forge
