// CUDA's own runtime, with memory from LibTorch's allocator, which counts and limits all memory of
// a run in one place.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <map>

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"
#include "kernels/device/runtime.h"

namespace forge::runtime {
namespace {

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw Error(ErrorKind::environment, std::string(what) + ": " + cudaGetErrorString(status));
}

cudaEvent_t event_of(EventHandle event) { return static_cast<cudaEvent_t>(event); }

using Pool = decltype(at::cuda::graph_pool_handle());  // its name is in another namespace in LibTorch 2.7.1

// A captured graph. LibTorch's allocations during a capture (efficient attention's results) are in
// one pool shared by all graphs of a GPU: a graph reads only what it has written there itself, and
// graphs are replayed one after the other.
struct Graph {
  c10::DeviceIndex gpu = 0;
  Pool pool;
  cudaGraphExec_t runnable = nullptr;
};
Graph* graph_of(GraphHandle graph) { return static_cast<Graph*>(graph); }
std::map<CudaStream, Graph*>& capturing() {
  static std::map<CudaStream, Graph*> graphs;
  return graphs;
}

Pool pool_of(c10::DeviceIndex gpu) {
  static std::map<c10::DeviceIndex, Pool> pools;
  const auto found = pools.find(gpu);
  return found != pools.end() ? found->second : pools[gpu] = at::cuda::graph_pool_handle();
}

}  // namespace

CudaStream use(int gpu) {
  static std::map<int, c10::cuda::CUDAStream> streams;
  const auto index = static_cast<c10::DeviceIndex>(gpu);
  c10::cuda::set_device(index);
  auto found = streams.find(gpu);
  if (found == streams.end()) {
    found = streams.emplace(gpu, c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index)).first;
    // Waits for work enqueued on the default stream before, such as copies of the model's weights.
    c10::cuda::device_synchronize();
  }
  c10::cuda::setCurrentCUDAStream(found->second);
  return found->second.stream();
}

CudaStream new_stream(int gpu) {
  return c10::cuda::getStreamFromPool(/*isHighPriority=*/false, static_cast<c10::DeviceIndex>(gpu)).stream();
}

int64_t multiprocessors(int gpu) {
  return at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(gpu))->multiProcessorCount;
}
int64_t capability(int gpu) {
  const cudaDeviceProp* card = at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(gpu));
  return card->major * 10 + card->minor;
}

void* allocate(int64_t bytes, const std::string&, CudaStream stream) {
  return c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(static_cast<size_t>(bytes), stream);
}
void release(void* pointer) { c10::cuda::CUDACachingAllocator::raw_delete(pointer); }

void* allocate_pinned(int64_t bytes) {
  void* pointer = nullptr;
  check(cudaHostAlloc(&pointer, static_cast<size_t>(bytes), cudaHostAllocDefault), "pinned memory");
  return pointer;
}
void release_pinned(void* pointer) { check(cudaFreeHost(pointer), "pinned memory"); }

// The address is the same for kernels. The memory is cached: the host reads it for checkpoints.
void* allocate_visible(int64_t bytes, const std::string& line) {
  void* pointer = nullptr;
  if (cudaHostAlloc(&pointer, static_cast<size_t>(bytes), cudaHostAllocMapped) == cudaSuccess) return pointer;
  cudaGetLastError();  // no fault of the next launch
  throw Error(ErrorKind::environment, line + ": the host has no " + format_bytes(bytes) + " that can be pinned for the GPU")
      .hint("free memory of the host, or keep it on the GPU");
}
// Ignores errors: destructors call it and may not throw, and an error here only repeats an earlier
// fault of the device.
void release_visible(void* pointer) { cudaFreeHost(pointer); }

void host_touches(const void*, int64_t, bool) {}
void library_touches(const void*, int64_t, int64_t, int64_t, bool, CudaStream) {}

void copy_in(void* to, const void* pinned, int64_t bytes, CudaStream stream) {
  check(cudaMemcpyAsync(to, pinned, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream), "copy to the GPU");
}
void copy_out(void* pinned, const void* from, int64_t bytes, CudaStream stream) {
  check(cudaMemcpyAsync(pinned, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream), "copy from the GPU");
}
void clear(void* at, int64_t bytes, CudaStream stream) {
  check(cudaMemsetAsync(at, 0, static_cast<size_t>(bytes), stream), "clear");
}

EventHandle new_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event");
  return event;
}
void record(EventHandle event, CudaStream stream) { check(cudaEventRecord(event_of(event), stream), "event"); }
void wait(CudaStream stream, EventHandle event) { check(cudaStreamWaitEvent(stream, event_of(event), 0), "wait"); }
void wait_for(EventHandle event) { check(cudaEventSynchronize(event_of(event)), "wait"); }
void synchronize(CudaStream stream) { check(cudaStreamSynchronize(stream), "wait"); }

EventHandle new_timed_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDefault), "event");
  return event;
}
double seconds_between(EventHandle from, EventHandle to) {
  wait_for(to);
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, event_of(from), event_of(to)), "time between events");
  return 1e-3 * static_cast<double>(milliseconds);
}

void begin_capture(CudaStream stream) {
  const c10::DeviceIndex gpu = c10::cuda::current_device();
  auto* graph = new Graph{gpu, pool_of(gpu)};
  capturing()[stream] = graph;
  c10::cuda::CUDACachingAllocator::beginAllocateToPool(graph->gpu, graph->pool, [stream](cudaStream_t of) { return of == stream; });
  const cudaError_t status = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  if (status != cudaSuccess) abandon_capture(stream);
  check(status, "capture");
}
GraphHandle end_capture(CudaStream stream) {
  Graph* graph = capturing()[stream];
  cudaGraph_t captured = nullptr;
  cudaError_t status = cudaStreamEndCapture(stream, &captured);
  c10::cuda::CUDACachingAllocator::endAllocateToPool(graph->gpu, graph->pool);
  if (status == cudaSuccess) status = cudaGraphInstantiate(&graph->runnable, captured, 0);
  if (captured) cudaGraphDestroy(captured);
  if (status != cudaSuccess) destroy(graph), cudaGetLastError();  // no fault of the next launch
  check(status, "capture");
  return graph;
}
void abandon_capture(CudaStream stream) {
  Graph* graph = capturing()[stream];
  cudaGraph_t captured = nullptr;
  cudaStreamEndCapture(stream, &captured);
  if (captured) cudaGraphDestroy(captured);
  cudaGetLastError();
  c10::cuda::CUDACachingAllocator::endAllocateToPool(graph->gpu, graph->pool);
  destroy(graph);
}
void replay(GraphHandle graph, CudaStream stream) { check(cudaGraphLaunch(graph_of(graph)->runnable, stream), "replay"); }
void destroy(GraphHandle handle) {
  Graph* graph = graph_of(handle);
  if (graph->runnable) cudaGraphExecDestroy(graph->runnable);
  c10::cuda::CUDACachingAllocator::releasePool(graph->gpu, graph->pool);
  delete graph;
}

}  // namespace forge::runtime
