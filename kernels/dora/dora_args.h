#pragma once
// DoRA's rescaling (Liu et al., DoRA, arXiv 2402.09353) of the result of a linear layer and its
// adapter, forward and backward, on plain memory:
//
//   y           = x · ratio + bias                where ratio = magnitude / ‖W + scale · B A‖, a number a column
//   d magnitude += Σ over rows of d y · x · inverse_norm
//   d x         = d y · ratio
//
// and the ratio itself (DoraRatio), once for all tokens. The norm is held constant in the backward,
// as in the paper (4.3) and in PEFT. Arithmetic in fp32, every result rounded once; sums over rows
// in their order. Bytes: forward 2 passes of rows · width elements, backward 3.
#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"
#include "kernels/device/launch.h"

namespace forge {

struct DoraForward {
  Element type = Element::f32;
  int64_t rows = 0, width = 0;
  const void* x = nullptr;
  int64_t x_stride = 0;          // elements from row to row
  const float* ratio = nullptr;  // [width]
  const void* bias = nullptr;    // [width], of the type, or null
  void* y = nullptr;             // may be x
  int64_t y_stride = 0;
};

struct DoraBackward {
  Element type = Element::f32;
  int64_t rows = 0, width = 0;
  const void* x = nullptr;
  int64_t x_stride = 0;
  const float* ratio = nullptr;         // [width]
  const float* inverse_norm = nullptr;  // [width]
  const void* d_y = nullptr;
  int64_t d_y_stride = 0;
  void* d_x = nullptr;  // may be d_y
  int64_t d_x_stride = 0;
  float* d_magnitude = nullptr;  // [width], added to
};

// ratio = magnitude · inverse_norm, inverse_norm = 1 / ‖W + scale · B A‖ by output row. fp32 sums.
struct DoraRatio {
  Element type = Element::f32;  // of weight, a, b, magnitude
  int64_t out = 0, in = 0, rank = 0;
  float scale = 1;
  const void* weight = nullptr;     // [out, in]
  const void* a = nullptr;          // [rank, in]
  const void* b = nullptr;          // [out, rank]
  const void* magnitude = nullptr;  // [out]
  float* ratio = nullptr;           // [out]
  float* inverse_norm = nullptr;    // [out]
  void* workspace = nullptr;        // on a CPU; a GPU needs none
};

constexpr int64_t kRatioRows = 64;  // output rows whose B A a CPU makes at once
inline int64_t dora_ratio_cpu_workspace(const DoraRatio& args) { return 4 * kRatioRows * args.in; }
void dora_ratio_cpu(const DoraRatio& args);

void dora_forward_cpu(const DoraForward& args, CpuLevel level = cpu_level());
void dora_backward_cpu(const DoraBackward& args, CpuLevel level = cpu_level());

// ---- on a GPU

void dora_forward_cuda(const DoraForward& args, CudaStream stream);
void dora_backward_cuda(const DoraBackward& args, CudaStream stream);

void dora_ratio_cuda(const DoraRatio& args, CudaStream stream);

}  // namespace forge
