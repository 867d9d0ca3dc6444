#pragma once
// A function of each number by itself, on plain memory, forward and backward: the activation of an
// MLP without a gate, and bounds of q, k and v.
//
//   y   = f(x)
//   d x = d y · f'(x)
//
// where f is
//
//   gelu       x Φ(x), Φ being the normal distribution (Hendrycks & Gimpel, 2016)
//   gelu_tanh  x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))
//   relu2      max(x, 0)² (So et al., 2021)
//   clamp      x between −limit and limit, where its slope is 1, bounds included
//
// Arithmetic in fp32, every result rounded once. Strides are elements from row to row. Bytes, in
// passes of rows · width elements: forward 2, backward 3.
#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"

namespace forge {

enum class Activation { gelu, gelu_tanh, relu2, clamp };

struct ActivationForward {
  Element type = Element::f32;
  Activation function = Activation::gelu;
  int64_t rows = 0, width = 0;
  const void* x = nullptr;
  int64_t x_stride = 0;
  void* y = nullptr;  // may be x
  int64_t y_stride = 0;
  float limit = 0;  // of clamp
};

struct ActivationBackward {
  Element type = Element::f32;
  Activation function = Activation::gelu;
  int64_t rows = 0, width = 0;
  const void* d_y = nullptr;
  int64_t d_y_stride = 0;
  const void* x = nullptr;
  int64_t x_stride = 0;
  void* d_x = nullptr;  // may be x or d_y
  int64_t d_x_stride = 0;
  float limit = 0;  // of clamp
};

void activation_forward_cpu(const ActivationForward& args, CpuLevel level = cpu_level());
void activation_backward_cpu(const ActivationBackward& args, CpuLevel level = cpu_level());

// ---- on a GPU

void activation_forward_cuda(const ActivationForward& args, CudaStream stream);
void activation_backward_cuda(const ActivationBackward& args, CudaStream stream);

inline GpuLaunches launches(const ActivationForward& a) { return {{"activation_forward", 2 * matrix_bytes(a.type, a.rows, a.width)}}; }
inline GpuLaunches launches(const ActivationBackward& a) {
  return {{"activation_backward", 3 * matrix_bytes(a.type, a.rows, a.width)}};
}

}  // namespace forge
