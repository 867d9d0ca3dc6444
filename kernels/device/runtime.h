#pragma once
// The part of CUDA's runtime that gpu_device.cpp uses. Twins: runtime_cuda.cpp, and in tests the
// emulator's, which records the enqueued work and reports accesses that no wait orders.
#include <cstdint>
#include <string>

#include "kernels/device/launch.h"

namespace forge::runtime {

// Makes a GPU the calling thread's, with a stream of its own as LibTorch's current one. Returns
// that stream.
CudaStream use(int gpu);
CudaStream new_stream(int gpu);
int64_t multiprocessors(int gpu);
int64_t capability(int gpu);  // 86 is 8.6

// Allocates device memory in the order of the compute stream. Throws c10::OutOfMemoryError.
void* allocate(int64_t bytes, const std::string& line, CudaStream stream);
void release(void* pointer);
// Allocates host memory that copies may be enqueued from and to; no kernel touches it.
void* allocate_pinned(int64_t bytes);
void release_pinned(void* pointer);
// Allocates pinned host memory that kernels read and write in place, under unified addressing.
// Throws Error(environment).
void* allocate_visible(int64_t bytes, const std::string& line);
void release_visible(void* pointer);
// Tells the runtime that the host reads or writes the memory now. CUDA's twin has nothing to do;
// the emulator's reports copies that still use it.
void host_touches(const void* pinned, int64_t bytes, bool writes);
// Tells the runtime the same of work that LibTorch enqueues on the stream.
void library_touches(const void* rows, int64_t count, int64_t bytes, int64_t stride_bytes, bool writes, CudaStream stream);

// Enqueue a copy.
void copy_in(void* to, const void* pinned, int64_t bytes, CudaStream stream);
void copy_out(void* pinned, const void* from, int64_t bytes, CudaStream stream);
void clear(void* at, int64_t bytes, CudaStream stream);

using EventHandle = void*;
EventHandle new_event();
void record(EventHandle event, CudaStream stream);
void wait(CudaStream stream, EventHandle event);
// Waits on the host. An event that was never recorded is done.
void wait_for(EventHandle event);
void synchronize(CudaStream stream);
// Returns an event that notes the device's time when it is recorded.
EventHandle new_timed_event();
// Returns the seconds on the device from one event to the other, both recorded outside of a
// capture; the host waits for the second.
double seconds_between(EventHandle from, EventHandle to);

using GraphHandle = void*;
// Both throw if the capture is refused; nothing is captured then.
void begin_capture(CudaStream stream);
GraphHandle end_capture(CudaStream stream);
void abandon_capture(CudaStream stream);
void replay(GraphHandle graph, CudaStream stream);
void destroy(GraphHandle graph);

}  // namespace forge::runtime
