// Runs the launchers on a real GPU, as a backend of the kernel cases.
#include "tests/kernels/cuda_backends.h"

#include "kernels/attention/attention_cuda.h"
#include "kernels/device/memory.h"
#include "tests/kernels/cuda_launchers.h"

namespace forge::kernel_test {
namespace {

class GpuMemory : public Memory {
 public:
  ~GpuMemory() override { release(); }
  void* allocate(int64_t bytes, int64_t) override {
    blocks_.push_back(device_allocate(static_cast<size_t>(bytes), "operand"));
    return blocks_.back();
  }
  void write(void* to, const void* host, int64_t bytes) override {
    copy_to_device(to, host, static_cast<size_t>(bytes));
  }
  void read(void* host, const void* from, int64_t bytes) override {
    copy_from_device(host, from, static_cast<size_t>(bytes));
  }
  void clear() override { release(); }

 private:
  void release() {
    for (void* block : blocks_) device_release(block);
    blocks_.clear();
  }
  std::vector<void*> blocks_;
};

}  // namespace

std::vector<Backend> cuda_backends() {
  Backend backend("cuda/" + device_name(), std::make_shared<GpuMemory>());
  auto wrap = [](auto action) {
    action();
    device_synchronise();
  };
  add_cuda_launchers(backend, /*stream=*/nullptr, wrap);
  // These are LibTorch's kernels, which the emulator cannot run; p and d s are rounded to the type.
  backend.add<AttentionForward>([=](const AttentionForward& a) { wrap([&] { attention_forward_cuda(a, nullptr); }); },
                                attention_forward_cuda_workspace, /*rounds_between=*/true);
  backend.add<AttentionBackward>([=](const AttentionBackward& a) { wrap([&] { attention_backward_cuda(a, nullptr); }); },
                                 attention_backward_cuda_workspace, /*rounds_between=*/true);
  return {backend};
}

std::vector<Backend> flash_backends() { return {}; }

}  // namespace forge::kernel_test
