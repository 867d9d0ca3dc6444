#pragma once
// The activation of an MLP without a gate on a GPU; formulas, shapes and bytes as in
// activation_args.h.
#include "kernels/activation/activation_args.h"
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"

namespace forge {

void activation_forward_cuda(const ActivationForward& args, CudaStream stream);
void activation_backward_cuda(const ActivationBackward& args, CudaStream stream);

inline GpuLaunches launches(const ActivationForward& a) { return {{"activation_forward", 2 * matrix_bytes(a.type, a.rows, a.width)}}; }
inline GpuLaunches launches(const ActivationBackward& a) {
  return {{"activation_backward", 3 * matrix_bytes(a.type, a.rows, a.width)}};
}

}  // namespace forge
