#pragma once
// DoRA's rescaling (Liu et al., DoRA, arXiv 2402.09353) of what a linear layer and its adapter made, forward and backward, on
// plain memory:
//
//   y           = x · ratio + bias                where ratio = magnitude / ‖W + scale · B A‖, a number a column
//   d magnitude += Σ over rows of d y · x · inverse_norm
//   d x         = d y · ratio
//
// The norm is held constant in the backward, as in the paper (4.3) and in PEFT. Arithmetic in fp32, every result rounded once; sums
// over rows in their order. Bytes: forward 2 passes of rows · width elements, backward 3.
#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"

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

void dora_forward_cpu(const DoraForward& args, CpuLevel level = cpu_level());
void dora_backward_cpu(const DoraBackward& args, CpuLevel level = cpu_level());

}  // namespace forge
