#pragma once
// LibTorch's CPU allocator, replaced by one that counts and that can say no: the measured peak of a run on a CPU, and
// a hard limit that makes running out of memory an error forge handles instead of a kill.
#include <cstdint>

namespace forge {

struct AllocatorStats {
  int64_t live_bytes = 0;
  int64_t peak_bytes = 0;   // since reset_allocator_peak
  int64_t allocations = 0;  // calls since the start
};

// Installs the allocator; before the first tensor. Calling it again does nothing.
void install_counting_allocator();
// 0: no limit. Past it an allocation throws c10::OutOfMemoryError, as CUDA's allocator does.
void set_allocator_limit(int64_t bytes);
// Memory of tensors that came from elsewhere, a mapped file, counts as if it had been allocated: `bytes` below zero when it goes.
void count_foreign(int64_t bytes);
AllocatorStats allocator_stats();
void reset_allocator_peak();

}  // namespace forge
