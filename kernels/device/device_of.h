#pragma once
// The device that holds the memory of LibTorch's tensors. The linked file decides which devices
// there are: cuda.cpp, no_cuda.cpp, or the emulator's.
#include <c10/core/Device.h>

#include "kernels/device/device.h"

namespace forge {

// Returns the device. Throws Error(environment) for one that this engine cannot use.
ComputeDevice& device_of(c10::Device device);

}  // namespace forge
