#pragma once
// Observes every launch of the hollow runtime, for a program that is linked to it.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

namespace forge::hollow {

struct Launch {
  const char* kernel =
      nullptr;  // mangled; copies and fills by the runtime under its function's name
  dim3 grid, block;
  size_t shared_bytes = 0;  // dynamic
  cudaStream_t stream = nullptr;
  void** arguments = nullptr;  // valid during the call; null for copies and fills
};

// Calls `watch` at every launch, whether it is recorded in a graph or runs, in the launching
// thread.
void watch_launches(std::function<void(const Launch&)> watch);

}  // namespace forge::hollow
