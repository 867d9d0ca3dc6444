// An emulated GPU: its tensors are in the host's memory, where LibTorch computes all that kernels
// do not.
#include "core/lib/base/error.h"
#include "core/lib/tensor/counting_allocator.h"
#include "core/lib/tensor/device.h"
#include "kernels/device/device_of.h"
#include "kernels/device/gpu_device.h"
#include "tests/emulator/engine/tensors.h"

namespace forge {

ComputeDevice& device_of(c10::Device) { return gpu_device(0); }

namespace cuda {

bool available() { return true; }
int device_count() { return 1; }
std::string describe() { return "an emulated GPU"; }
c10::Device tensor_device(int) {
  install_counting_allocator();
  emulator::watch_tensors();
  return c10::Device(c10::DeviceType::CPU);
}
DeviceMemory memory(int) {
  const AllocatorStats stats = allocator_stats();
  return {stats.live_bytes, stats.peak_bytes};
}
void synchronize(int) {}
void limit_memory(int, int64_t) {}
void release_product_memory() {}
void check_collectives() {}

}  // namespace cuda
}  // namespace forge
