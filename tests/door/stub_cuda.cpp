// A stub of libcuda.so.1: answers like a driver for the cards that the environment names. It
// computes nothing.
//   STUB_CARDS   "NVIDIA H100|90|80|79;…": name, compute capability, GiB, GiB free
//   STUB_CUDA    newest CUDA of the driver, 13000; STUB_INIT: what cuInit returns, 0
#include <array>
#include <cstdlib>
#include <cstring>

#include "tests/door/stub_cards.h"

using namespace stub;

extern "C" {
int cuInit(unsigned) { return static_cast<int>(number("STUB_INIT", 0)); }
int cuDriverGetVersion(int* version) {
  *version = static_cast<int>(number("STUB_CUDA", 13000));
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = static_cast<int>(cards().size());
  return 0;
}
int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}
int cuDeviceGetName(char* name, int size, int device) {
  std::strncpy(name, cards()[device].name.c_str(), size);
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const int capability = cards()[device].capability;
  *value = attribute == 75 ? capability / 10 : capability % 10;
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  *bytes = cards()[device].gib << 30;
  return 0;
}
int cuDeviceGetPCIBusId(char* id, int, int device) {
  std::strcpy(id, std::to_string(device).c_str());
  return 0;
}
int cuDeviceGetUuid(std::array<unsigned char, 16>*, int) { return 1; }
}
