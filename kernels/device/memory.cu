#include "kernels/device/memory.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <map>
#include <stdexcept>
#include <vector>

namespace forge {
namespace {

constexpr size_t kGuardBytes = 4096;
constexpr int kGuard = 0xA5, kPoison = 0xFF;

struct Allocation {
  unsigned char* raw;
  size_t raw_bytes, bytes;
};

std::map<const void*, Allocation>& allocations() {
  static std::map<const void*, Allocation> instance;
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
  Allocation allocation{nullptr, bytes + misalign + 2 * kGuardBytes, bytes};
  void* raw = nullptr;
  check(cudaMalloc(&raw, allocation.raw_bytes), name.c_str());
  allocation.raw = static_cast<unsigned char*>(raw);
  check(cudaMemset(raw, kGuard, allocation.raw_bytes), "cudaMemset");
  unsigned char* begin = allocation.raw + kGuardBytes + misalign;
  check(cudaMemset(begin, kPoison, bytes), "cudaMemset");
  allocations()[begin] = allocation;
  return begin;
}

void device_release(void* pointer) {
  auto found = allocations().find(pointer);
  if (found == allocations().end()) return;
  check(cudaFree(found->second.raw), "cudaFree");
  allocations().erase(found);
}

void copy_to_device(void* to, const void* from, size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copy to the device");
}

void copy_from_device(void* to, const void* from, size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "copy from the device");
}

void device_synchronise() { check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

int64_t device_first_unwritten(const void*) { return -1; }

void device_check_guards(const void* pointer) {
  const Allocation& allocation = allocations().at(pointer);
  std::vector<unsigned char> bytes(allocation.raw_bytes);
  copy_from_device(bytes.data(), allocation.raw, bytes.size());
  const size_t begin = static_cast<size_t>(static_cast<const unsigned char*>(pointer) - allocation.raw);
  for (size_t i = 0; i < bytes.size(); ++i)
    if ((i < begin || i >= begin + allocation.bytes) && bytes[i] != kGuard)
      throw std::runtime_error("the guard region of a device allocation was overwritten");
}

}  // namespace forge
