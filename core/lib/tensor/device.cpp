#include "core/lib/tensor/device.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <omp.h>

#include "core/lib/base/error.h"
#include "core/lib/tensor/counting_allocator.h"

namespace forge {

c10::Device open_device(const std::string& name) {
  if (name == "cpu") {
    install_counting_allocator();
    return c10::Device(c10::DeviceType::CPU);
  }
  c10::Device device(name);
  if (!device.is_cuda()) throw Error(ErrorKind::environment, "device " + name + ": expected cpu, cuda or cuda:N");
  if (!cuda::available())
    throw Error(ErrorKind::environment, "device " + name + ": " + cuda::describe())
        .hint("run `forge doctor`, or set hardware.device: cpu");
  int index = device.has_index() ? device.index() : 0;
  if (index >= cuda::device_count())
    throw Error(ErrorKind::environment, "device " + name + ": this machine has " +
                                            std::to_string(cuda::device_count()) + " CUDA devices");
  return cuda::tensor_device(index);
}

DeviceMemory device_memory(c10::Device device) {
  if (device.is_cuda()) return cuda::memory(device.index());
  AllocatorStats stats = allocator_stats();
  return {stats.live_bytes, stats.peak_bytes};
}

void synchronize(c10::Device device) {
  if (device.is_cuda()) cuda::synchronize(device.index());
}

void limit_device_memory(c10::Device device, int64_t bytes) {
  if (device.is_cuda()) return cuda::limit_memory(device.index(), bytes);
  set_allocator_limit(bytes);
}

void release_product_memory(c10::Device device) {
  if (device.is_cuda()) cuda::release_product_memory();
}

void set_threads(int64_t threads) {
  omp_set_dynamic(0);
  at::set_num_threads(static_cast<int>(threads));
  // MKL picks the implementation of a vector function at the first call. Threads that made that
  // call at once have been seen to get implementations of different accuracy (pytorch/helion#3598).
  // Before one thread made the first call, one resumed run in one to three hundred, on a loaded
  // machine, had another gradient norm (4e-7 apart) in its first step.
  at::exp(at::zeros({1}));
}

}  // namespace forge
