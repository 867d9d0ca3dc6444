// Implements the CUDA part of device.h in an engine that was built without CUDA.
#include "core/lib/base/error.h"
#include "core/lib/tensor/device.h"

namespace forge::cuda {

namespace {
[[noreturn]] void absent() { throw Error(ErrorKind::environment, describe()); }
}  // namespace

bool available() { return false; }
int device_count() { return 0; }
c10::Device tensor_device(int) { absent(); }
std::string describe() { return "this engine was built without CUDA"; }
DeviceMemory memory(int) { absent(); }
void synchronize(int) { absent(); }
void limit_memory(int, int64_t) { absent(); }
void release_product_memory() { absent(); }
void check_collectives() { absent(); }

}  // namespace forge::cuda
