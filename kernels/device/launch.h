#pragma once
// The launch parameters besides pointers and sizes: a stream and a launch shape. No torch, no CUDA
// headers.
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;

namespace forge {

using CudaStream = CUstream_st*;  // cudaStream_t; null is the default stream

struct LaunchShape {
  unsigned blocks = 1, threads = 32;
  size_t shared_bytes = 0;  // dynamic shared memory
  unsigned blocks_y = 1;
};

}  // namespace forge
