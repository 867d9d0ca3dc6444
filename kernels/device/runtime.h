#pragma once
// CUDA's runtime as gpu_device.cpp uses it. Twins: runtime_cuda.cpp, and in tests the emulator's, which records what is queued
// and finds what no wait orders.
#include <cstdint>
#include <string>

#include "kernels/device/launch.h"

namespace forge::runtime {

// Makes a GPU the calling thread's, with a stream of its own as LibTorch's current one. → that stream
CudaStream use(int gpu);
CudaStream new_stream(int gpu);
int64_t multiprocessors(int gpu);
int64_t capability(int gpu);  // 86 is 8.6

// Device memory of the compute stream's order. Throws c10::OutOfMemoryError.
void* allocate(int64_t bytes, const std::string& line, CudaStream stream);
void release(void* pointer);
// Host memory that copies may be queued from and to; no kernel touches it.
void* allocate_pinned(int64_t bytes);
void release_pinned(void* pointer);
// Pinned host memory that kernels read and write where it lies, under unified addressing. Throws Error(environment).
void* allocate_visible(int64_t bytes, const std::string& line);
void release_visible(void* pointer);
// The host reads or writes it now. CUDA's twin has nothing to do; the emulator's finds copies that are still at it.
void host_touches(const void* pinned, int64_t bytes, bool writes);

// Queued.
void copy_in(void* to, const void* pinned, int64_t bytes, CudaStream stream);
void copy_out(void* pinned, const void* from, int64_t bytes, CudaStream stream);
void clear(void* at, int64_t bytes, CudaStream stream);

using EventHandle = void*;
EventHandle new_event();
void record(EventHandle event, CudaStream stream);
void wait(CudaStream stream, EventHandle event);
// The host waits. An event that was never recorded is done.
void wait_for(EventHandle event);
void synchronize(CudaStream stream);
// An event that notes the device's time where it is recorded.
EventHandle new_timed_event();
// Seconds on the device from one to the other, both recorded outside of a capture; the host waits for the second.
double seconds_between(EventHandle from, EventHandle to);

using GraphHandle = void*;
// Both throw where the capture is refused, and nothing is captured then.
void begin_capture(CudaStream stream);
GraphHandle end_capture(CudaStream stream);
void abandon_capture(CudaStream stream);
void replay(GraphHandle graph, CudaStream stream);
void destroy(GraphHandle graph);

}  // namespace forge::runtime
