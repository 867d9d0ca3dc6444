// The CUDA runtime of the hollow GPU: kernels, cards, memory. Streams and graphs are in work.cpp.
//
// LibTorch's libraries and the engine bind cudart's functions by name, so this library, loaded
// before them (LD_PRELOAD), takes precedence over libcudart. Other functions are those of the real
// libcudart, which finds no driver and fails.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tests/hollow/card.h"
#include "tests/hollow/memory.h"
#include "tests/hollow/report.h"
#include "tests/hollow/values.h"
#include "tests/hollow/watch.h"
#include "tests/hollow/work.h"

using namespace forge::hollow;

namespace {

struct Configuration {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};

struct Function {
  const char* name = nullptr;
  size_t shared_bytes = 48 << 10;  // that it may be launched with
};

struct Registry {
  std::mutex mutex;
  std::unordered_map<const void*, Function> functions;
  std::unordered_map<const void*, size_t> variables;
  std::unordered_map<const void*, void*> symbols;
};
// Returns the registry. Libraries register kernels before objects here are constructed, and may
// never unregister.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

thread_local std::vector<Configuration> pushed;

std::function<void(const Launch&)>& watcher() {
  static auto* const instance = new std::function<void(const Launch&)>;
  return *instance;
}
void watched(const Launch& launch) {
  if (watcher()) watcher()(launch);
}

std::string shape_of(const Configuration& c) {
  const auto text = [](const dim3& d) {
    return std::to_string(d.x) + "x" + std::to_string(d.y) + "x" + std::to_string(d.z);
  };
  return text(c.grid) + " blocks of " + text(c.block) + " threads with " +
         std::to_string(c.shared_bytes) + " bytes of shared memory";
}

// Returns why a launch is refused: the limits of the CUDA C++ programming guide for all compute
// capabilities.
std::string refusal(const Function& f, const Configuration& c) {
  const uint64_t threads = uint64_t{c.block.x} * c.block.y * c.block.z;
  if (threads == 0 || threads > 1024 || c.block.z > 64) return "a block has 1 to 1024 threads";
  if (c.grid.x == 0 || c.grid.y == 0 || c.grid.z == 0) return "a grid has at least one block";
  if (c.grid.x > 2147483647u || c.grid.y > 65535 || c.grid.z > 65535)
    return "a grid has at most 65535 blocks in y and z";
  if (c.shared_bytes > f.shared_bytes)
    return "it may have " + std::to_string(f.shared_bytes) + " bytes of shared memory";
  return "";
}

// Returns the version of the code that a card runs: the newest that LibTorch 2.11's wheel for CUDA
// 13 has for its generation (torch.cuda.get_arch_list()). CUB chooses a kernel's settings by it and
// accepts no other.
int code_version() {
  int version = 0;
  for (const int compiled : {75, 80, 86, 90, 100, 120})
    if (compiled <= card_of(current_card()).capability) version = compiled;
  return version;
}

cudaError_t launch(const void* function, const Configuration& c, void** arguments) {
  Function f;
  {
    const std::lock_guard lock(registry().mutex);
    const auto found = registry().functions.find(function);
    if (found == registry().functions.end())
      return broken(cudaErrorInvalidDeviceFunction, "a launch of a kernel that nobody registered");
    f = found->second;
  }
  if (const std::string why = refusal(f, c); !why.empty())
    return broken(cudaErrorInvalidConfiguration,
                  std::string(f.name) + " with " + shape_of(c) + ": " + why);
  watched({f.name, c.grid, c.block, c.shared_bytes, c.stream, arguments});
  return give(c.stream, Work::kernel, f.name, stand_in(f.name, arguments, c.grid.x));
}

// Returns what is wrong with a copy; empty if nothing is.
std::string fault_of_copy(const void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const bool to_card = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_card = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  // Pinned memory has an address on the card, too.
  if (to_card && !lies_in(Kind::device, to, bytes) && !lies_in(Kind::pinned, to, bytes))
    return "a copy to what is not the card's";
  if (from_card && !lies_in(Kind::device, from, bytes) && !lies_in(Kind::pinned, from, bytes))
    return "a copy from what is not the card's";
  return "";
}

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream) {
  if (const std::string fault = fault_of_copy(to, from, bytes, kind); !fault.empty())
    return broken(cudaErrorInvalidValue, fault + ", " + std::to_string(bytes) + " bytes");
  watched({.kernel = "cudaMemcpyAsync", .stream = stream});
  const char* names[] = {"within the host", "to the card", "from the card", "within the card",
                         "by address"};
  return give(stream, Work::copy, names[kind], [=] { std::memmove(to, from, bytes); });
}

cudaError_t take_memory(Kind kind, void** pointer, size_t bytes, const char* call) {
  if (forbidden_in_capture(call)) return cudaErrorStreamCaptureUnsupported;
  count(call);
  if (kind == Kind::device) count_on_card("allocations", current_card());
  *pointer = take(kind, current_card(), bytes);
  return *pointer ? cudaSuccess : fails(cudaErrorMemoryAllocation);
}
cudaError_t give_memory_back(void* pointer, const char* call) {
  if (!pointer) return cudaSuccess;
  if (forbidden_in_capture(call)) return cudaErrorStreamCaptureUnsupported;
  return give_back(pointer)
             ? cudaSuccess
             : broken(cudaErrorInvalidValue, std::string(call) + " of what is not its");
}

struct AtEnd {
  ~AtEnd() { write_report(); }
} at_end;

}  // namespace

void forge::hollow::watch_launches(std::function<void(const Launch&)> watch) {
  watcher() = std::move(watch);
}

extern "C" {

// Replaces _exit(), by which the engine ends, and writes the report first.
void _exit(int code) {
  write_report();
  syscall(SYS_exit_group, code);
  __builtin_unreachable();
}

// ---- Kernels

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 0; }
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  const std::lock_guard lock(registry().mutex);
  registry().functions[host].name = name;
}
void __cudaRegisterVar(void**, char* host, char*, const char*, int, size_t bytes, int, int) {
  const std::lock_guard lock(registry().mutex);
  registry().variables[host] = bytes;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     cudaStream_t stream) {
  pushed.push_back({grid, block, shared_bytes, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                       void* stream) {
  const Configuration c = pushed.back();
  pushed.pop_back();
  *grid = c.grid, *block = c.block, *shared_bytes = c.shared_bytes,
  *static_cast<cudaStream_t*>(stream) = c.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared_bytes, cudaStream_t stream) {
  return launch(kernel, {grid, block, shared_bytes, stream}, arguments);
}
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             size_t shared_bytes, cudaStream_t stream) {
  return launch(function, {grid, block, shared_bytes, stream}, arguments);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* function,
                                void** arguments) {
  return launch(function, {c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream}, arguments);
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || static_cast<size_t>(value) > card_of(current_card()).shared_bytes)
    return fails(cudaErrorInvalidValue);
  const std::lock_guard lock(registry().mutex);
  registry().functions[function].shared_bytes = static_cast<size_t>(value);
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024, attributes->numRegs = 64;
  attributes->binaryVersion = attributes->ptxVersion = code_version();
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int,
                                                                   size_t, unsigned) {
  *blocks = 1;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
  *blocks = 1;
  return cudaSuccess;
}

// ---- Cards

cudaError_t cudaGetDeviceCount(int* cards) {
  *cards = machine().cards;
  if (machine().cuda < 13000) return fails(cudaErrorInsufficientDriver);
  return *cards > 0 ? cudaSuccess : fails(cudaErrorNoDevice);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int card) {
  // The runtime numbers attributes like the driver does.
  static const auto ask =
      reinterpret_cast<int (*)(int*, int, int)>(dlsym(RTLD_DEFAULT, "cuDeviceGetAttribute"));
  return ask(value, static_cast<int>(attribute), card) == 0 ? cudaSuccess
                                                            : fails(cudaErrorInvalidDevice);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (device < 0 || device >= machine().cards) return fails(cudaErrorInvalidDevice);
  const Card& card = card_of(device);
  *p = {};
  std::strncpy(p->name, card.name.c_str(), sizeof p->name - 1);
  p->major = card.capability / 10, p->minor = card.capability % 10;
  p->multiProcessorCount = card.multiprocessors, p->totalGlobalMem = card.memory_bytes;
  p->sharedMemPerBlock = 49152, p->sharedMemPerBlockOptin = card.shared_bytes;
  p->sharedMemPerMultiprocessor = card.shared_bytes + 1024;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536, p->warpSize = 32;
  p->maxThreadsPerBlock = 1024, p->maxThreadsPerMultiProcessor = card.threads,
  p->maxBlocksPerMultiProcessor = 32;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->pciBusID = device + 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* address, int bytes, int card) {
  std::snprintf(address, static_cast<size_t>(bytes), "%s", pci_of(card).c_str());
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0, *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = machine().cuda;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    default: return "an error of the hollow GPU";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : cudaGetErrorName(error);
}
// Finds the driver's functions that are here; like a driver, it reports one that is missing.
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  // cuda.h gives some of them a later version's name.
  for (const char* version : {"", "_v2"})
    if ((*function = dlsym(RTLD_DEFAULT, (std::string(name) + version).c_str()))) break;
  if (result)
    *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

// ---- Memory

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return take_memory(Kind::device, pointer, bytes, "cudaMalloc");
}
cudaError_t cudaFree(void* pointer) { return give_memory_back(pointer, "cudaFree"); }
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  return take_memory(Kind::pinned, pointer, bytes, "cudaHostAlloc");
}
cudaError_t cudaFreeHost(void* pointer) { return give_memory_back(pointer, "cudaFreeHost"); }
cudaError_t cudaHostRegister(void*, size_t, unsigned) { return cudaSuccess; }
cudaError_t cudaHostUnregister(void*) { return cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = card_of(current_card()).memory_bytes;
  *free = free_bytes(current_card());
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy(to, from, bytes, kind, stream);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (forbidden_in_capture("cudaMemcpy")) return cudaErrorStreamCaptureUnsupported;
  count("host waits for a copy");
  return copy(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream) {
  if (!lies_in(Kind::device, at, bytes) && !lies_in(Kind::pinned, at, bytes))
    return broken(cudaErrorInvalidValue, "a fill of what is not the card's");
  watched({.kernel = "cudaMemsetAsync", .stream = stream});
  return give(stream, Work::copy, "fill", [=] { fill(at, value, bytes); });
}
cudaError_t cudaMemset(void* at, int value, size_t bytes) {
  return cudaMemsetAsync(at, value, bytes, nullptr);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  *attributes = {};
  const Range* range = find(pointer);
  attributes->type = !range                        ? cudaMemoryTypeUnregistered
                     : range->kind == Kind::pinned ? cudaMemoryTypeHost
                                                   : cudaMemoryTypeDevice;
  attributes->device = range ? range->card : current_card();
  attributes->devicePointer = range ? const_cast<void*>(pointer) : nullptr;
  return cudaSuccess;
}
cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  void*& at = r.symbols[symbol];
  if (!at) at = take(Kind::device, current_card(), r.variables[symbol]);
  *pointer = at;
  return at ? cudaSuccess : fails(cudaErrorInvalidSymbol);
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind) {
  void* at = nullptr;
  if (const cudaError_t error = cudaGetSymbolAddress(&at, symbol); error != cudaSuccess)
    return error;
  std::memcpy(static_cast<char*>(at) + offset, from, bytes);
  return cudaSuccess;
}

}  // extern "C"
