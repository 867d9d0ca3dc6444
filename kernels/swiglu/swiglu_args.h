#pragma once
// The gated activation of an MLP (Shazeer, GLU Variants, 2020) on plain memory, forward and
// backward, for every backend.
//
//   y      = f(gate) · up
//   d gate = d y · up · f'(gate)
//   d up   = d y · f(gate)
//
// where f is silu(x) = x σ(x), gelu(x) = x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))), σ(x), the gate
// of an attention's result, or x itself, in a product of two values.
//
// Arithmetic in fp32, every result rounded once. Strides are elements from row to row; gate and up
// may be the two halves of one row of a fused projection. Bytes: forward 3 passes of rows · width
// elements; backward 5, 6 with y.
#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"

namespace forge {

enum class GateFunction { silu, gelu_tanh, sigmoid, product };

struct SwigluForward {
  Element type = Element::f32;
  GateFunction function = GateFunction::silu;
  int64_t rows = 0, width = 0;
  const void* gate = nullptr;
  int64_t gate_stride = 0;
  const void* up = nullptr;
  int64_t up_stride = 0;
  void* y = nullptr;  // may be gate or up
  int64_t y_stride = 0;
};

struct SwigluBackward {
  Element type = Element::f32;
  GateFunction function = GateFunction::silu;
  int64_t rows = 0, width = 0;
  const void* d_y = nullptr;
  int64_t d_y_stride = 0;
  void* gate = nullptr;  // in: gate; out: d gate, like d up unless that has a place of its own
  int64_t gate_stride = 0;
  void* up = nullptr;  // in: up; out: d up
  int64_t up_stride = 0;
  void* y = nullptr;  // the forward's result again, for the gradient of the weight that follows; may be d_y;
                      // or null
  int64_t y_stride = 0;
  // Places of both gradients where gate and up are read again; null: over gate and up.
  void* d_gate = nullptr;
  int64_t d_gate_stride = 0;
  void* d_up = nullptr;
  int64_t d_up_stride = 0;
};

// The clamped activation of gpt-oss, of pairs: columns 2i are gates, columns 2i + 1 the values that
// they gate. With g = min(gate, limit), u = min(max(up, −limit), limit) and s = σ(alpha g), and no
// gradient where a limit holds:
//
//   y      = (u + 1) g s
//   d gate = d y (u + 1) s (1 + alpha g (1 − s))
//   d up   = d y g s
struct ClampedGluForward {
  Element type = Element::f32;
  int64_t rows = 0, width = 0;  // of y
  float limit = 0, alpha = 1;
  const void* pairs = nullptr;  // [rows, 2 width]
  int64_t pairs_stride = 0;
  void* y = nullptr;
  int64_t y_stride = 0;
};

struct ClampedGluBackward {
  Element type = Element::f32;
  int64_t rows = 0, width = 0;
  float limit = 0, alpha = 1;
  const void* d_y = nullptr;
  int64_t d_y_stride = 0;
  void* pairs = nullptr;  // in: pairs; out: their gradients
  int64_t pairs_stride = 0;
  void* y = nullptr;  // the forward's result again; may be d_y; or null
  int64_t y_stride = 0;
};

void swiglu_forward_cpu(const SwigluForward& args, CpuLevel level = cpu_level());
void swiglu_backward_cpu(const SwigluBackward& args, CpuLevel level = cpu_level());
void clamped_glu_forward_cpu(const ClampedGluForward& args, CpuLevel level = cpu_level());
void clamped_glu_backward_cpu(const ClampedGluBackward& args, CpuLevel level = cpu_level());

// ---- on a GPU

void swiglu_forward_cuda(const SwigluForward& args, CudaStream stream);
void swiglu_backward_cuda(const SwigluBackward& args, CudaStream stream);
void clamped_glu_forward_cuda(const ClampedGluForward& args, CudaStream stream);
void clamped_glu_backward_cuda(const ClampedGluBackward& args, CudaStream stream);

inline GpuLaunches launches(const SwigluForward& a) { return {{"swiglu_forward", 3 * matrix_bytes(a.type, a.rows, a.width)}}; }
inline GpuLaunches launches(const SwigluBackward& a) {
  return {{"swiglu_backward", (a.y ? 6 : 5) * matrix_bytes(a.type, a.rows, a.width)}};
}
inline GpuLaunches launches(const ClampedGluForward& a) {
  return {{"clamped_glu_forward", 3 * matrix_bytes(a.type, a.rows, a.width)}};
}
inline GpuLaunches launches(const ClampedGluBackward& a) {
  return {{"clamped_glu_backward", (a.y ? 6 : 5) * matrix_bytes(a.type, a.rows, a.width)}};
}

}  // namespace forge
