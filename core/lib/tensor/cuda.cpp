// Implements the CUDA part of device.h: LibTorch's caching allocator, the current device's stream,
// NCCL through c10d.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "core/lib/base/error.h"
#include "core/lib/tensor/device.h"

namespace forge::cuda {
namespace {

int64_t aggregate(const c10::CachingDeviceAllocator::StatArray& stats, int64_t c10::CachingAllocator::Stat::*member) {
  return stats[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].*member;
}

}  // namespace

bool available() { return c10::cuda::device_count() > 0; }
int device_count() { return c10::cuda::device_count(); }

c10::Device tensor_device(int index) {
  // Before this call the allocator knows no device, and refuses a limit (pytorch#37567).
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  // By default cuBLAS may round between parts of a product's depth; gemm.h promises sums in fp32.
  at::globalContext().setAllowFP16ReductionCuBLAS(false);
  at::globalContext().setAllowBF16ReductionCuBLAS(false);
  return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index)};
}

std::string describe() {
  if (!available()) return "no CUDA device can be used: no card, no driver, or a driver older than CUDA 13";
  std::string text;
  for (int index = 0; index < device_count(); ++index) {
    const auto* properties = at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(index));
    text += (index ? ", " : "") + std::string(properties->name) + " (sm_" + std::to_string(properties->major) +
            std::to_string(properties->minor) + ")";
  }
  return text;
}

DeviceMemory memory(int index) {
  auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(index));
  return {aggregate(stats.allocated_bytes, &c10::CachingAllocator::Stat::current),
          aggregate(stats.allocated_bytes, &c10::CachingAllocator::Stat::peak)};
}

void synchronize(int index) { c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(index)).synchronize(); }

void limit_memory(int index, int64_t bytes) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  const auto* properties = at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(index));
  double share = bytes > 0 ? static_cast<double>(bytes) / static_cast<double>(properties->totalGlobalMem) : 1;
  c10::cuda::CUDACachingAllocator::setMemoryFraction(std::min(1.0, share), static_cast<c10::DeviceIndex>(index));
}

void release_product_memory() { at::cuda::clearCublasWorkspaces(); }

void check_collectives() {
  auto store = c10::make_intrusive<c10d::HashStore>();
  c10d::ProcessGroupNCCL group(store, /*rank=*/0, /*size=*/1);
  std::vector<at::Tensor> values{at::ones({4}, at::TensorOptions().device(at::kCUDA))};
  group.allreduce(values)->wait();
  const float sum = values[0].cpu().sum().item<float>();
  if (sum != 4) throw Error(ErrorKind::environment, "NCCL's all-reduce over one rank returned " + std::to_string(sum));
}

}  // namespace forge::cuda
