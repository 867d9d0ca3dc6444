#pragma once
// The device whose memory LibTorch's tensors lie in. What is linked decides which there are: cuda.cpp, no_cuda.cpp, or the
// emulator's.
#include <c10/core/Device.h>

#include "kernels/device/device.h"

namespace forge {

// Throws Error(environment) for one that this engine cannot use.
ComputeDevice& device_of(c10::Device device);

}  // namespace forge
