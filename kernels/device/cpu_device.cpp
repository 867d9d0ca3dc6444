// The table of the CPU versions. Products, norms of DoRA and sums of rows are LibTorch's.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "core/lib/base/error.h"
#include "kernels/activation/activation_args.h"
#include "kernels/attention/attention_args.h"
#include "kernels/attention/cached_attention_args.h"
#include "kernels/delta_rule/delta_rule_args.h"
#include "kernels/device/cpu_product.h"
#include "kernels/device/device.h"
#include "kernels/dora/dora_args.h"
#include "kernels/embedding/embedding_args.h"
#include "kernels/experts/experts_args.h"
#include "kernels/fp8/fp8_args.h"
#include "kernels/latent/latent_args.h"
#include "kernels/layer_norm/layer_norm_args.h"
#include "kernels/lm_head/lm_head_args.h"
#include "kernels/lora/lora_args.h"
#include "kernels/optimizer/optimizer_args.h"
#include "kernels/product/gemm_tiles.h"
#include "kernels/product/product_args.h"
#include "kernels/quantize/quantize_args.h"
#include "kernels/rms_norm/rms_norm_args.h"
#include "kernels/rope/rope_args.h"
#include "kernels/rows/rows_args.h"
#include "kernels/short_conv/short_conv_args.h"
#include "kernels/swiglu/swiglu_args.h"

namespace forge {
namespace {

// Sets a row's run to fn(args) or fn(args, level).
template <auto fn, class Args, class... Level>
void set_run(DeviceOps& ops, void (*)(const Args&, Level...)) {
  ops.row<Args>().run = [](const Args& args, CudaStream) {
    if constexpr (sizeof...(Level) > 0)
      fn(args, cpu_level());
    else
      fn(args);
  };
}
template <auto... fns>
void set_runs(DeviceOps& ops) {
  (set_run<fns>(ops, fns), ...);
}

DeviceOps cpu_ops() {
  DeviceOps ops;
  set_runs<activation_backward_cpu, activation_forward_cpu, adamw_8bit_cpu, adamw_cpu, add_rows_cpu,
           attention_backward_cpu, attention_forward_cpu, cache_store_cpu, cached_attention_cpu,
           clamped_glu_backward_cpu, clamped_glu_forward_cpu, convert_elements_cpu, copy_rows_cpu,
           delta_gates_backward_cpu, delta_gates_forward_cpu, delta_rule_backward_cpu,
           delta_rule_forward_cpu, dequantize_blocks_cpu, dora_backward_cpu, dora_forward_cpu, dora_ratio_cpu,
           embedding_backward_cpu, embedding_forward_cpu, expert_combine_backward_cpu,
           expert_combine_cpu, expert_route_backward_cpu, expert_route_cpu, expert_rows_cpu,
           gate_rows_backward_cpu, gate_rows_cpu, gradient_norm_cpu, latent_heads_cpu,
           layer_norm_backward_cpu, layer_norm_forward_cpu, lion_cpu, lm_head_cpu,
           lora_backward_cpu, lora_forward_cpu, product_cpu, products_cpu, quantize_rows_cpu,
           regroup_heads_cpu, rms_norm_backward_cpu, rms_norm_forward_cpu, rope_cpu,
           row_product_cpu, scale_rows_cpu, scaled_product_cpu, short_conv_backward_cpu,
           short_conv_forward_cpu, split_groups_cpu, sum_columns_cpu,
           swiglu_backward_cpu, swiglu_forward_cpu, transpose_bytes_cpu, trim_heads_cpu>(ops);
  ops.set_workspaces(gradient_norm_cpu_workspace, row_product_cpu_workspace);
  ops.row<DequantizeBlocks>().refusal = dequantize_blocks_cpu_refusal;
  return ops;
}

// Work runs when it is enqueued, so there is nothing to wait for.
class CpuDevice : public ComputeDevice {
 public:
  using ComputeDevice::ComputeDevice;

  // Allocates from LibTorch's allocator, which a run counts and limits.
  void* allocate(int64_t bytes, const std::string&) override {
    return c10::GetCPUAllocator()->raw_allocate(static_cast<size_t>(bytes));
  }
  void release(void* pointer) override { c10::GetCPUAllocator()->raw_deallocate(pointer); }
  bool separate() const override { return false; }
  bool tiles_work(Element type) const override { return gemm_tiles_work(type); }
  bool tiles_pay(Element type) const override { return gemm_tiles_pay(type); }
  void store(void* on_host, const void* from, int64_t bytes, Stream) override { std::memcpy(on_host, from, static_cast<size_t>(bytes)); }
  void load(void* to, const void* on_host, int64_t bytes, Stream) override { std::memcpy(to, on_host, static_cast<size_t>(bytes)); }
  void clear(void* at, int64_t bytes, Stream) override { std::memset(at, 0, static_cast<size_t>(bytes)); }
  void write(void* to, const void* host, int64_t bytes, Stream) override {
    std::memcpy(to, host, static_cast<size_t>(bytes));
  }
  void read(void* host, const void* from, int64_t bytes, Stream) override {
    std::memcpy(host, from, static_cast<size_t>(bytes));
  }

  std::shared_ptr<Fetched> fetch(const void* from, int64_t bytes, Stream) override {
    auto copy = std::make_shared<Copy>();
    copy->bytes.assign(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
    return copy;
  }

  // Returns nanoseconds of the host's clock.
  Moment mark() override {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return {std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()};
  }
  double seconds(Moment from, Moment to) override { return 1e-9 * static_cast<double>(to.number - from.number); }

  std::unique_ptr<Captured> capture(const std::function<void()>& work) override {
    auto captured = std::make_unique<Work>();
    captured->run = work;
    return captured;
  }
  void replay(const Captured& captured) override { static_cast<const Work&>(captured).run(); }

 private:
  struct Copy : Fetched {
    std::vector<char> bytes;
    void take(void* host) override { std::copy(bytes.begin(), bytes.end(), static_cast<char*>(host)); }
  };
  struct Work : Captured {
    std::function<void()> run;
  };
};

}  // namespace

ComputeDevice& cpu_device() {
  static const DeviceOps ops = cpu_ops();
  static CpuDevice device(ops);
  return device;
}

}  // namespace forge
