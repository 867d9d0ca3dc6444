#include "tests/kernels/backend.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "core/lib/base/error.h"
#include "tests/kernels/attention_stand_ins.h"
#include "tests/kernels/cuda_backends.h"

namespace forge::kernel_test {

Memory::~Memory() { Memory::clear(); }

void* Memory::allocate(int64_t bytes, int64_t) {
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

namespace {

class FencedMemory : public Memory {
 public:
  ~FencedMemory() override { FencedMemory::clear(); }
  void* allocate(int64_t bytes, int64_t guard) override {
    if (guard == 0) return Memory::allocate(bytes, 0);
    const int64_t own = (bytes - guard + kPage - 1) / kPage * kPage;
    void* base = mmap(nullptr, static_cast<size_t>(own + kPage), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FORGE_CHECK(base != MAP_FAILED, "no memory for an operand");
    fences_.push_back({static_cast<char*>(base), own});
    return static_cast<char*>(base) + own - (bytes - guard);
  }
  void expose(const Region&) override { protect(PROT_NONE); }
  void read(void* host, const void* from, int64_t bytes) override {
    protect(PROT_READ | PROT_WRITE);
    Memory::read(host, from, bytes);
  }
  void clear() override {
    for (const Fence& fence : fences_) munmap(fence.base, static_cast<size_t>(fence.own + kPage));
    fences_.clear();
    Memory::clear();
  }

 private:
  static constexpr int64_t kPage = 4096;
  struct Fence {
    char* base;
    int64_t own;
  };
  void protect(int access) {
    for (const Fence& fence : fences_) mprotect(fence.base + fence.own, kPage, access);
  }
  std::vector<Fence> fences_;
};

}  // namespace

std::shared_ptr<Memory> fenced_memory() { return std::make_shared<FencedMemory>(); }

std::vector<Backend> all_backends() {
  std::vector<Backend> backends = cpu_backends();
  backends.push_back(reference_backend());
  for (Backend& backend : attention_backends()) backends.push_back(std::move(backend));
  for (Backend& backend : flash_backends()) backends.push_back(std::move(backend));
  for (Backend& backend : cuda_backends()) backends.push_back(std::move(backend));
  return backends;
}

}  // namespace forge::kernel_test
