#include "core/lib/base/error.h"
#include "kernels/device/device_of.h"

namespace forge {

ComputeDevice& device_of(c10::Device device) {
  if (!device.is_cpu()) throw Error(ErrorKind::environment, "this engine was built without CUDA");
  return cpu_device();
}

}  // namespace forge
