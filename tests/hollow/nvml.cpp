// NVML: the driver's version and a card's free memory. Prototypes: NVML reference manual, since no
// wheel has its header.
#include <cstdint>
#include <cstring>
#include <string>

#include "tests/hollow/card.h"
#include "tests/hollow/memory.h"

using namespace forge::hollow;

namespace {

constexpr int kSuccess = 0, kNotSupported = 3, kNotFound = 6;
struct Memory {
  unsigned long long total, free, used;
};

}  // namespace

extern "C" {

int nvmlInit_v2() { return kSuccess; }
int nvmlShutdown() { return kSuccess; }
int nvmlSystemGetDriverVersion(char* version, unsigned bytes) {
  std::strncpy(version, machine().cuda >= 13000 ? "580.65.06" : "550.54.15", bytes);
  return kSuccess;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = machine().cuda;
  return kSuccess;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  const int card = card_at(address);
  *device = reinterpret_cast<void*>(static_cast<intptr_t>(card) + 1);
  return card < 0 ? kNotFound : kSuccess;
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  const int card = static_cast<int>(reinterpret_cast<intptr_t>(device)) - 1;
  memory->total = card_of(card).memory_bytes;
  memory->free = free_bytes(card) + machine().taken_bytes;  // another process takes those later
  memory->used = memory->total - memory->free;
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, unsigned*) { return kNotSupported; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, void*) { return kNotSupported; }
int nvmlDeviceGetComputeRunningProcesses(void*, unsigned* count, void*) {
  *count = 0;
  return kSuccess;
}
int nvmlDeviceGetGpuFabricInfoV(void*, void*) { return kNotSupported; }

}  // extern "C"
