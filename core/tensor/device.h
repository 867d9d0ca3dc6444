#pragma once
// The device of a run: chosen once from the plan, asked for its memory afterwards. A build without CUDA links
// no_cuda.cpp instead of cuda.cpp; nothing else differs.
#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace forge {

struct DeviceMemory {
  int64_t live_bytes = 0;
  int64_t peak_bytes = 0;
};

// "cpu", "cuda" or "cuda:N". Throws Error(environment) when this engine cannot use it.
c10::Device open_device(const std::string& name);
DeviceMemory device_memory(c10::Device device);
// Waits until everything queued on the device is done (CPU: nothing to wait for).
void synchronize(c10::Device device);
// A limit on what the run may allocate; 0: none.
void limit_device_memory(c10::Device device, int64_t bytes);
// Gives back the memory that products keep for each stream they were queued on. Call when no more will be queued on one of them, and what
// was queued has been waited for.
void release_product_memory(c10::Device device);
// Sets OpenMP's and LibTorch's thread count; static schedules, so that reductions repeat bit for bit.
void set_threads(int64_t threads);

// What differs between builds with and without CUDA.
namespace cuda {
bool available();
int device_count();
c10::Device tensor_device(int index);  // where the tensors of a run on that GPU lie
std::string describe();  // "no CUDA in this engine", or the runtime's version and the cards
DeviceMemory memory(int index);
void synchronize(int index);
void limit_memory(int index, int64_t bytes);
void release_product_memory();
// A NCCL process group of one rank, opened and closed: proves that the collective library links and works.
void check_collectives();
}  // namespace cuda

}  // namespace forge
