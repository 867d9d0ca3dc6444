#include "kernels/device/device_of.h"
#include "kernels/device/gpu_device.h"

namespace forge {

ComputeDevice& device_of(c10::Device device) {
  return device.is_cuda() ? gpu_device(device.has_index() ? device.index() : 0) : cpu_device();
}

}  // namespace forge
