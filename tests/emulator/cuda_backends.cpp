#include "tests/kernels/cuda_backends.h"

#include "kernels/attention/attention_flash.h"
#include "tests/emulator/grid.h"
#include "tests/emulator/memory.h"
#include "tests/kernels/cuda_launchers.h"

namespace forge::kernel_test {
namespace {

// Host memory of which kernels may only touch the operands.
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
    // A stream that is not the default one. It is never read.
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

namespace {

// Rows that are not aligned to 16 bytes belong to another kernel (attention_cuda.h), which is the
// CPU's here.
template <class Args>
void flash_or_cpu(const Args& args, void (*flash)(const Args&, CudaStream), int64_t (*workspace)(const Args&),
                  void (*cpu)(const Args&, CpuLevel)) {
  emulator::schedule() = {emulator::Order::forward, 1};
  emulator::only_stream() = nullptr;
  if (flash_takes(args)) return flash(args, nullptr);
  std::vector<char> scratch(static_cast<size_t>(workspace(args)));
  Args own = args;
  own.workspace = scratch.data();
  cpu(own, cpu_level());
}

}  // namespace

std::vector<Backend> flash_backends() {
  Backend backend("emulated/flash attention", std::make_shared<EmulatedMemory>());
  const auto refusal = [](const auto& a) -> std::string {
    const AttentionShape& s = a.shape;
    if (s.type == Element::f32) return "flash attention has no fp32";
    if (s.softcap != 0 || s.window > 0 || s.sinks) return "flash attention is called without windows, caps and sinks";
    return s.head_dim % 8 == 0 && s.head_dim <= 256 ? "" : "flash attention has heads of a multiple of 8, and at most 256";
  };
  backend.add<AttentionForward>(
      [](const AttentionForward& a) { flash_or_cpu(a, attention_forward_flash, attention_forward_cpu_workspace, attention_forward_cpu); },
      attention_forward_flash_workspace, /*rounds_between=*/true, {.refusal = refusal});
  backend.add<AttentionBackward>(
      [](const AttentionBackward& a) { flash_or_cpu(a, attention_backward_flash, attention_backward_cpu_workspace, attention_backward_cpu); },
      attention_backward_flash_workspace, /*rounds_between=*/true, {.refusal = refusal});
  return {backend};
}

}  // namespace forge::kernel_test
