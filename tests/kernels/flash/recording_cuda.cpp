#include "tests/kernels/flash/recording_cuda.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <unordered_map>
#include <utility>

namespace forge::recording {
namespace {

struct Card {
  int multiprocessors;
  size_t shared_bytes;  // that a kernel may ask for
};
// A100, RTX 3090, H100, B200, RTX 5090
constexpr Card kOf[kCards] = {{108, 166912}, {82, 101376}, {132, 232448}, {148, 232448}, {170, 101376}};

struct Configuration {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};

// Functions of libraries are registered before anything here is constructed.
std::unordered_map<const void*, const char*>& names() {
  static auto* all = new std::unordered_map<const void*, const char*>;
  return *all;
}
std::vector<Launch>& launches() {
  static auto* all = new std::vector<Launch>;
  return *all;
}
std::function<size_t(const std::string&)>& argument_bytes() {
  static auto* bytes = new std::function<size_t(const std::string&)>;
  return *bytes;
}
std::vector<Configuration>& configurations() {
  thread_local std::vector<Configuration> pushed;
  return pushed;
}
thread_local int current = 0;

cudaError_t add(const void* function, const Configuration& c, void** arguments) {
  const auto found = names().find(function);
  Launch launch{found == names().end() ? "a kernel that nobody registered" : found->second};
  launch.grid[0] = c.grid.x, launch.grid[1] = c.grid.y, launch.grid[2] = c.grid.z;
  launch.block[0] = c.block.x, launch.block[1] = c.block.y, launch.block[2] = c.block.z;
  launch.shared_bytes = c.shared_bytes, launch.stream = c.stream;
  if (argument_bytes()) launch.argument.resize(argument_bytes()(launch.kernel));
  if (!launch.argument.empty()) std::memcpy(launch.argument.data(), arguments[0], launch.argument.size());
  launches().push_back(std::move(launch));
  return cudaSuccess;
}

cudaError_t add(const char* name, cudaStream_t stream) {
  Launch launch{name};
  launch.stream = stream;
  launches().push_back(std::move(launch));
  return cudaSuccess;
}

// A handle that nothing looks into.
template <class Handle>
cudaError_t make(Handle* handle) {
  static uintptr_t next = 0x1000;
  *handle = reinterpret_cast<Handle>(next += 16);
  return cudaSuccess;
}

cudaError_t take_memory(void** pointer, size_t bytes) {
  *pointer = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  return *pointer ? cudaSuccess : cudaErrorMemoryAllocation;
}

}  // namespace

std::vector<Launch> take() { return std::exchange(launches(), {}); }
size_t shared_bytes(int card) { return kOf[card].shared_bytes; }
void set_argument_bytes(std::function<size_t(const std::string&)> bytes) { argument_bytes() = std::move(bytes); }

}  // namespace forge::recording

using namespace forge::recording;

extern "C" {

// ---- Kernels

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  names()[host] = name;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream) {
  configurations().push_back({grid, block, shared_bytes, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  const Configuration c = configurations().back();
  configurations().pop_back();
  *grid = c.grid, *block = c.block, *shared_bytes = c.shared_bytes, *static_cast<cudaStream_t*>(stream) = c.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes, cudaStream_t stream) {
  return add(kernel, {grid, block, shared_bytes, stream}, arguments);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* function, void** arguments) {
  return add(function, {c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream}, arguments);
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024, attributes->numRegs = 64;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t, unsigned) {
  *blocks = 1;
  return cudaSuccess;
}

// ---- Cards

cudaError_t cudaGetDeviceCount(int* count) {
  *count = kCards;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  current = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor         ? kCapabilities[device] / 10
           : attribute == cudaDevAttrComputeCapabilityMinor       ? kCapabilities[device] % 10
           : attribute == cudaDevAttrMultiProcessorCount          ? kOf[device].multiprocessors
           : attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? static_cast<int>(kOf[device].shared_bytes)
           : attribute == cudaDevAttrMaxSharedMemoryPerMultiprocessor ? static_cast<int>(kOf[device].shared_bytes) + 1024
                                                                      : 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  *p = {};
  std::strcpy(p->name, "a card of the tests");
  p->major = kCapabilities[device] / 10, p->minor = kCapabilities[device] % 10;
  p->multiProcessorCount = kOf[device].multiprocessors;
  p->sharedMemPerBlock = 49152, p->sharedMemPerBlockOptin = kOf[device].shared_bytes;
  p->sharedMemPerMultiprocessor = kOf[device].shared_bytes + 1024;
  p->totalGlobalMem = size_t{24} << 30, p->regsPerBlock = 65536, p->regsPerMultiprocessor = 65536, p->warpSize = 32;
  p->maxThreadsPerBlock = 1024, p->maxThreadsPerMultiProcessor = 2048, p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64, p->maxGridSize[0] = INT32_MAX, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }

// ---- Memory

cudaError_t cudaMalloc(void** pointer, size_t bytes) { return take_memory(pointer, bytes); }
cudaError_t cudaFree(void* pointer) {
  std::free(pointer);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) { return take_memory(pointer, bytes); }
cudaError_t cudaFreeHost(void* pointer) { return cudaFree(pointer); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = size_t{24} << 30;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  std::memcpy(to, from, bytes);
  return add("cudaMemcpyAsync", stream);
}
cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream) {
  std::memset(at, value, bytes);
  return add("cudaMemsetAsync", stream);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  *attributes = {};
  attributes->type = cudaMemoryTypeDevice, attributes->device = current;
  attributes->devicePointer = const_cast<void*>(pointer);
  return cudaSuccess;
}

// ---- Streams and events

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) { return make(stream); }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return make(event); }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }

}  // extern "C"
