// The hollow driver: the functions of libcuda.so.1 that forge's probe, LibTorch's allocator and
// cuDNN's plans call.
#include <cuda.h>

#include <atomic>
#include <cstring>

#include "tests/hollow/card.h"
#include "tests/hollow/memory.h"
#include "tests/hollow/report.h"

using namespace forge::hollow;

namespace {

// Bytes that LibTorch maps at a time, which is the page size of a real driver, too.
constexpr size_t kGranularity = size_t{2} << 20;

bool is_card(CUdevice device) { return device >= 0 && device < machine().cards; }

struct Physical {
  int card;
  size_t bytes;
};
Physical* physical(CUmemGenericAllocationHandle handle) {
  return reinterpret_cast<Physical*>(handle);
}

thread_local CUcontext current = nullptr;

}  // namespace

extern "C" {

CUresult cuInit(unsigned) { return machine().cards > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE; }
CUresult cuDriverGetVersion(int* version) {
  *version = machine().cuda;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = machine().cards;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (!is_card(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int bytes, CUdevice device) {
  if (!is_card(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::strncpy(name, card_of(device).name.c_str(), static_cast<size_t>(bytes) - 1);
  name[bytes - 1] = '\0';
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (!is_card(device)) return CUDA_ERROR_INVALID_DEVICE;
  const Card& card = card_of(device);
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = card.capability / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = card.capability % 10; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = card.multiprocessors; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = card.threads; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      *value = card.capability == 75 ? 16 : 32;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = 2147483647; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *value = 65535; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 49152; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = static_cast<int>(card.shared_bytes);
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      *value = static_cast<int>(card.shared_bytes) + 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: *value = 1; break;
    default: *value = 0;
  }
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  if (!is_card(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = card_of(device).memory_bytes;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetPCIBusId(char* address, int bytes, CUdevice device) {
  if (!is_card(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::strncpy(address, pci_of(device).c_str(), static_cast<size_t>(bytes));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  if (!is_card(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::memset(uuid, device + 1, sizeof *uuid);
  return CUDA_SUCCESS;
}
#undef cuDeviceGetUuid  // the first version's name, which forge's probe asks for
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "an error of the hollow driver";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char** text) { return cuGetErrorString(error, text); }

// ---- Contexts: one a card

CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  *flags = 0, *active = 1;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = reinterpret_cast<CUcontext>(static_cast<uintptr_t>(device) + 1);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current ? current : reinterpret_cast<CUcontext>(uintptr_t{1});
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}

// ---- Memory with addresses of its own, for expandable segments

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  *bytes = kGranularity;
  return CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr* at, size_t bytes, size_t, CUdeviceptr,
                             unsigned long long) {
  *at = reinterpret_cast<CUdeviceptr>(reserve(bytes));
  return *at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemAddressFree(CUdeviceptr, size_t) { return CUDA_SUCCESS; }
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* of, unsigned long long) {
  if (bytes % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
  count("cuMemCreate");
  count_on_card("allocations", of->location.id);
  if (!charge(of->location.id, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(new Physical{of->location.id, bytes});
  return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  discharge(physical(handle)->card, physical(handle)->bytes);
  delete physical(handle);
  return CUDA_SUCCESS;
}
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
  map(reinterpret_cast<void*>(at), bytes, physical(handle)->card);
  return CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) {
  return CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
  unmap(reinterpret_cast<void*>(at), bytes);
  return CUDA_SUCCESS;
}
// Functions for several processes and several cards, which are not supported here.
CUresult cuMemExportToShareableHandle(void*, CUmemGenericAllocationHandle,
                                      CUmemAllocationHandleType, unsigned long long) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle*, void*,
                                        CUmemAllocationHandleType) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle*, void*) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp*,
                                                CUmemGenericAllocationHandle) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuMemsetD32Async(CUdeviceptr, unsigned, size_t, CUstream) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuStreamWriteValue32(CUstream, CUdeviceptr, cuuint32_t, unsigned) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // extern "C"
