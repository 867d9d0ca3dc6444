#include "tests/kernels/cuda_backends.h"

#include "tests/emulator/grid.h"
#include "tests/emulator/memory.h"
#include "tests/kernels/cuda_launchers.h"

namespace forge::kernel_test {
namespace {

// Host memory of which the kernels may touch the operands alone.
class EmulatedMemory : public Memory {
 public:
  ~EmulatedMemory() override { forget(); }
  void expose(const Region& region) override {
    emulator::expose(region.begin, static_cast<size_t>(region.bytes), region.name, region.writable,
                     static_cast<size_t>(region.element_bytes));
    exposed_.push_back(region.begin);
  }
  void clear() override {
    forget();
    Memory::clear();
  }

 private:
  void forget() {
    for (void* begin : exposed_) emulator::release(begin);
    exposed_.clear();
  }
  std::vector<void*> exposed_;
};

}  // namespace

std::vector<Backend> cuda_backends() {
  const std::pair<const char*, emulator::Schedule> orders[] = {
      {"forward", {emulator::Order::forward, 1}},
      {"reverse", {emulator::Order::reverse, 1}},
      {"seeded", {emulator::Order::seeded, 20261121}}};
  std::vector<Backend> backends;
  for (const auto& [name, schedule] : orders) {
    Backend backend(std::string("emulated/") + name, std::make_shared<EmulatedMemory>());
    // Never read: a stream that is not the default one.
    const CudaStream stream = reinterpret_cast<CudaStream>(uintptr_t{1});
    add_cuda_launchers(
        backend, stream,
        [=, schedule = schedule](auto action) {
          emulator::schedule() = schedule;
          emulator::only_stream() = stream;
          action();
        },
        /*most_products=*/500'000);
    backends.push_back(std::move(backend));
  }
  return backends;
}

}  // namespace forge::kernel_test
