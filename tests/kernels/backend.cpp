#include "tests/kernels/backend.h"

#include <cstdlib>
#include <cstring>

#include "tests/kernels/attention_stand_ins.h"
#include "tests/kernels/cuda_backends.h"

namespace forge::kernel_test {

Memory::~Memory() { Memory::clear(); }

void* Memory::allocate(int64_t bytes) {
  blocks_.push_back(std::aligned_alloc(256, static_cast<size_t>((bytes + 255) / 256 * 256 + 256)));
  return blocks_.back();
}
void Memory::write(void* to, const void* host, int64_t bytes) {
  std::memcpy(to, host, static_cast<size_t>(bytes));
}
void Memory::read(void* host, const void* from, int64_t bytes) {
  std::memcpy(host, from, static_cast<size_t>(bytes));
}
void Memory::clear() {
  for (void* block : blocks_) std::free(block);
  blocks_.clear();
}

std::vector<Backend> all_backends() {
  std::vector<Backend> backends = cpu_backends();
  backends.push_back(reference_backend());
  for (Backend& backend : attention_backends()) backends.push_back(std::move(backend));
  for (Backend& backend : cuda_backends()) backends.push_back(std::move(backend));
  return backends;
}

}  // namespace forge::kernel_test
