#pragma once
// The device of a run: chosen once from the plan, and asked for its memory afterwards. A build
// without CUDA links no_cuda.cpp instead of cuda.cpp. Nothing else differs.
#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace forge {

struct DeviceMemory {
  int64_t live_bytes = 0;
  int64_t peak_bytes = 0;
};

// Opens "cpu", "cuda" or "cuda:N". Throws Error(environment) if this engine cannot use it.
c10::Device open_device(const std::string& name);
DeviceMemory device_memory(c10::Device device);
// Waits until everything queued on the device is done. Does nothing on a CPU.
void synchronize(c10::Device device);
// Sets a limit on the memory that the run may allocate; 0: none.
void limit_device_memory(c10::Device device, int64_t bytes);
// Releases the memory that matrix products keep for each stream they were queued on. Call it when
// no more products will be queued on one of the streams, and the queued ones have finished.
void release_product_memory(c10::Device device);
// Sets OpenMP's and LibTorch's thread count. Schedules are static, so that reductions repeat bit
// for bit.
void set_threads(int64_t threads);

// Functions that differ between builds with and without CUDA.
namespace cuda {
bool available();
int device_count();
c10::Device tensor_device(int index);  // the device of a run's tensors on that GPU
std::string describe();  // "no CUDA in this engine", or the runtime's version and the cards
DeviceMemory memory(int index);
void synchronize(int index);
void limit_memory(int index, int64_t bytes);
void release_product_memory();
// Opens and closes an NCCL process group of one rank, which proves that the collective library
// links and works.
void check_collectives();
}  // namespace cuda

}  // namespace forge
