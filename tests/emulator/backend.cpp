#include "tests/emulator/backend.h"

#include "kernels/rms_norm/rms_norm_cuda.h"
#include "kernels/rope/rope_cuda.h"
#include "kernels/swiglu/swiglu_cuda.h"
#include "tests/emulator/grid.h"
#include "tests/emulator/memory.h"

namespace forge::kernel_test {
namespace {

// Host memory of which the kernels may touch the operands alone.
class EmulatedMemory : public Memory {
 public:
  ~EmulatedMemory() override { forget(); }
  void expose(const Region& region) override {
    emulator::expose(region.begin, static_cast<size_t>(region.bytes), region.name, region.writable);
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

class EmulatedBackend {
 public:
  EmulatedBackend(const std::string& name, emulator::Schedule schedule)
      : backend_("emulated/" + name, std::make_shared<EmulatedMemory>()), schedule_(schedule) {}

  template <class Args>
  EmulatedBackend& add(void (*launcher)(const Args&, CudaStream)) {
    backend_.add<Args>([=, schedule = schedule_](const Args& args) {
      emulator::schedule() = schedule;
      launcher(args, nullptr);
      emulator::schedule() = {};
    });
    return *this;
  }
  Backend take() { return std::move(backend_); }

 private:
  Backend backend_;
  emulator::Schedule schedule_;
};

}  // namespace

std::vector<Backend> emulated_backends() {
  std::vector<Backend> backends;
  const std::pair<const char*, emulator::Schedule> orders[] = {{"forward", {emulator::Order::forward, 1}},
                                                               {"reverse", {emulator::Order::reverse, 1}},
                                                               {"seeded", {emulator::Order::seeded, 20261121}}};
  for (const auto& [name, schedule] : orders)
    backends.push_back(EmulatedBackend(name, schedule)
                           .add(rms_norm_forward_cuda)
                           .add(rms_norm_backward_cuda)
                           .add(rope_cuda)
                           .add(swiglu_forward_cuda)
                           .add(swiglu_backward_cuda)
                           .take());
  return backends;
}

}  // namespace forge::kernel_test
