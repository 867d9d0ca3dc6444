#pragma once
// Device memory for programs that drive the kernels without LibTorch: the case harness and the
// benches. Two twins are linked: CUDA's and the emulator's, which checks every access.
#include <stddef.h>
#include <stdint.h>

#include <string>

namespace forge {

// "emulator" or the GPU's name.
std::string device_name();
// Returns memory that begins `misalign` bytes past a 256-byte boundary. The emulator knows its
// bounds and which bytes were written; CUDA fills it with NaN.
void* device_allocate(size_t bytes, const std::string& name, size_t misalign = 0);
void device_release(void* pointer);
void copy_to_device(void* to, const void* from, size_t bytes);
void copy_from_device(void* to, const void* from, size_t bytes);
// Waits for all launches. Throws their errors.
void device_synchronise();

}  // namespace forge
