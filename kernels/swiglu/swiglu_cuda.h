#pragma once
// The gated activations on a GPU; formulas, shapes and bytes as in swiglu_args.h.
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"
#include "kernels/swiglu/swiglu_args.h"

namespace forge {

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
