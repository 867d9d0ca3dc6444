#pragma once
// Replaces LibTorch's CPU allocator by one that counts and that can refuse: the measured peak of a
// run on a CPU, and a hard limit that makes running out of memory an error that forge handles
// instead of a kill.
#include <cstdint>

namespace forge {

struct AllocatorStats {
  int64_t live_bytes = 0;
  int64_t peak_bytes = 0;   // since reset_allocator_peak
  int64_t allocations = 0;  // calls since the start
};

// Installs the allocator. It must be called before the first tensor. Calling it again does nothing.
void install_counting_allocator();
// Sets the limit; 0: none. Past it an allocation throws c10::OutOfMemoryError, as CUDA's allocator
// does.
void set_allocator_limit(int64_t bytes);
// Counts memory of tensors that was not allocated here, such as a mapped file, as if it had been.
// `bytes` is negative when it is released.
void count_foreign(int64_t bytes);
AllocatorStats allocator_stats();
void reset_allocator_peak();

}  // namespace forge
