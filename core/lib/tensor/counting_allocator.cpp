#include "core/lib/tensor/counting_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace forge {
namespace {

std::atomic<int64_t> live{0}, peak{0}, allocations{0}, limit{0};

// The size is stored in a one-cache-line header before the data, since a deleter gets only a
// pointer.
constexpr size_t kHeader = 64;
constexpr size_t kHugePage = size_t{2} << 20;

void release(void* data) {
  if (!data) return;
  char* base = static_cast<char*>(data) - kHeader;
  int64_t size = 0;
  std::memcpy(&size, base, sizeof size);
  live -= size;
  std::free(base);
}

void raise_peak(int64_t now) {
  int64_t highest = peak;
  while (now > highest && !peak.compare_exchange_weak(highest, now)) {
  }
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    if (size == 0) return {nullptr, nullptr, &release, c10::Device(c10::DeviceType::CPU)};
    int64_t bytes = static_cast<int64_t>(size);
    int64_t now = live += bytes;
    if (limit > 0 && now > limit) {
      live -= bytes;
      TORCH_CHECK_WITH(OutOfMemoryError, false, "the run's memory limit is ", limit.load(), " bytes, ",
                       now - bytes, " are in use and ", size, " more were asked for");
    }
    // Large blocks start on a huge page: faulting in 4 KiB pages is measurable for tensors of 100
    // MB.
    size_t alignment = size >= kHugePage ? kHugePage : 64;
    void* base = nullptr;
    if (posix_memalign(&base, alignment, size + kHeader) != 0) {
      live -= bytes;
      TORCH_CHECK_WITH(OutOfMemoryError, false, "the system refused ", size, " bytes");
    }
    if (size >= kHugePage) madvise(base, size + kHeader, MADV_HUGEPAGE);
    std::memcpy(base, &bytes, sizeof bytes);
    ++allocations;
    raise_peak(now);
    // The context is the address itself: LibTorch's own scratch (bf16 GEMM) comes through
    // raw_allocate, which requires this.
    void* data = static_cast<char*>(base) + kHeader;
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* destination, const void* source, std::size_t count) const override {
    default_copy_data(destination, source, count);
  }
};

}  // namespace

void install_counting_allocator() {
  static CountingAllocator allocator;  // must outlive the last tensor
  if (c10::GetCPUAllocator() != &allocator) c10::SetCPUAllocator(&allocator, 100);
}

void set_allocator_limit(int64_t bytes) { limit = bytes; }
void count_foreign(int64_t bytes) { raise_peak(live += bytes); }
AllocatorStats allocator_stats() { return {live, peak, allocations}; }
void reset_allocator_peak() { peak = live.load(); }

}  // namespace forge
