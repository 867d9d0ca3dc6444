#include "kernels/device/memory.h"

#include <cuda_runtime_api.h>

#include <map>
#include <stdexcept>

namespace forge {
namespace {

constexpr int kPoison = 0xFF;  // NaN in every float type

// Maps each pointer that device_allocate returned to the pointer that cudaMalloc returned.
std::map<const void*, void*>& allocations() {
  static std::map<const void*, void*> instance;
  return instance;
}

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

}  // namespace

std::string device_name() {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  return properties.name;
}

void* device_allocate(size_t bytes, const std::string& name, size_t misalign) {
  void* raw = nullptr;
  check(cudaMalloc(&raw, bytes + misalign + 1), name.c_str());
  void* begin = static_cast<unsigned char*>(raw) + misalign;
  check(cudaMemset(begin, kPoison, bytes), "cudaMemset");
  allocations()[begin] = raw;
  return begin;
}

void device_release(void* pointer) {
  auto found = allocations().find(pointer);
  if (found == allocations().end()) return;
  check(cudaFree(found->second), "cudaFree");
  allocations().erase(found);
}

void copy_to_device(void* to, const void* from, size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copy to the device");
}

void copy_from_device(void* to, const void* from, size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "copy from the device");
}

void device_synchronise() { check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

}  // namespace forge
