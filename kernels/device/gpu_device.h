#pragma once
// A GPU as a Device: the launchers' table over CUDA's runtime, or the emulator's.
#include "kernels/device/device.h"

namespace forge {

// Returns the GPU with this index and makes it the calling thread's.
ComputeDevice& gpu_device(int gpu);

}  // namespace forge
