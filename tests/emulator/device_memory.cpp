#include <cstring>

#include "kernels/device/memory.h"
#include "tests/emulator/memory.h"

namespace forge {

std::string device_name() { return "emulator"; }

void* device_allocate(size_t bytes, const std::string& name, size_t misalign) {
  return emulator::allocate(bytes, name, misalign);
}

void device_release(void* pointer) { emulator::release(pointer); }

void copy_to_device(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  emulator::mark_written(to, bytes);
  std::memcpy(to, from, bytes);
}

void copy_from_device(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

void device_synchronise() {}

}  // namespace forge
