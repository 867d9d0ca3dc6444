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
#include "kernels/swiglu/swiglu_args.h"

namespace forge {
namespace {

// Wraps fn(args) or fn(args, level) for a table row's run.
template <auto fn, class Args>
void on_cpu(const Args& args, CudaStream) {
  fn(args);
}
template <auto fn, class Args>
void at_level(const Args& args, CudaStream) {
  fn(args, cpu_level());
}

template <auto fn, class Args>
void set_level(DeviceOps& ops, int64_t (*workspace)(const Args&) = nullptr) {
  ops.row<Args>() = {at_level<fn, Args>, workspace};
}
template <auto fn, class Args>
void set(DeviceOps& ops, int64_t (*workspace)(const Args&) = nullptr) {
  ops.row<Args>() = {on_cpu<fn, Args>, workspace};
}

DeviceOps cpu_ops() {
  DeviceOps ops;
  set<add_rows_cpu, AddRows>(ops);
  set<convert_elements_cpu, ConvertElements>(ops);
  set<copy_rows_cpu, CopyRows>(ops);
  set_level<dequantize_blocks_cpu, DequantizeBlocks>(ops);
  ops.row<DequantizeBlocks>().refusal = dequantize_blocks_cpu_refusal;
  set<dora_ratio_cpu, DoraRatio>(ops, dora_ratio_cpu_workspace);
  set<expert_combine_backward_cpu, ExpertCombineBackward>(ops);
  set<expert_combine_cpu, ExpertCombine>(ops);
  set<expert_route_backward_cpu, ExpertRouteBackward>(ops);
  set<expert_route_cpu, ExpertRoute>(ops);
  set<expert_rows_cpu, ExpertRows>(ops);
  set<gate_rows_backward_cpu, GateRowsBackward>(ops);
  set<gate_rows_cpu, GateRows>(ops);
  set<latent_heads_cpu, LatentHeads>(ops);
  set<regroup_heads_cpu, RegroupHeads>(ops);
  set<scale_rows_cpu, ScaleRows>(ops);
  set<quantize_rows_cpu, QuantizeRows>(ops);
  set<transpose_bytes_cpu, TransposeBytes>(ops);
  set<product_cpu, Gemm>(ops, product_cpu_workspace);
  set<products_cpu, GemmGroup>(ops);
  set<sum_columns_cpu, SumColumns>(ops);
  set<trim_heads_cpu, TrimHeads>(ops);
  set_level<activation_backward_cpu, ActivationBackward>(ops);
  set_level<activation_forward_cpu, ActivationForward>(ops);
  set_level<layer_norm_backward_cpu, LayerNormBackward>(ops);
  set_level<layer_norm_forward_cpu, LayerNormForward>(ops);
  set_level<adamw_8bit_cpu, AdamW8bitUpdate>(ops);
  set_level<adamw_cpu, AdamWUpdate>(ops);
  set_level<attention_backward_cpu, AttentionBackward>(ops, attention_backward_cpu_workspace);
  set_level<attention_forward_cpu, AttentionForward>(ops, attention_forward_cpu_workspace);
  set_level<cache_store_cpu, CacheStore>(ops);
  set_level<cached_attention_cpu, CachedAttention>(ops, cached_attention_cpu_workspace);
  set_level<clamped_glu_backward_cpu, ClampedGluBackward>(ops);
  set_level<clamped_glu_forward_cpu, ClampedGluForward>(ops);
  set_level<dora_backward_cpu, DoraBackward>(ops);
  set_level<dora_forward_cpu, DoraForward>(ops);
  set_level<embedding_backward_cpu, EmbeddingBackward>(ops);
  set_level<embedding_forward_cpu, EmbeddingForward>(ops);
  set_level<gradient_norm_cpu, FlatNorm>(ops, gradient_norm_cpu_workspace);
  set_level<lion_cpu, LionUpdate>(ops);
  set_level<lm_head_cpu, LmHead>(ops, lm_head_cpu_workspace);
  set_level<lora_backward_cpu, LoraBackward>(ops, lora_backward_cpu_workspace);
  set_level<lora_forward_cpu, LoraForward>(ops, lora_forward_cpu_workspace);
  set_level<rms_norm_backward_cpu, RmsNormBackward>(ops);
  set_level<rms_norm_forward_cpu, RmsNormForward>(ops);
  set_level<rope_cpu, Rope>(ops);
  set_level<row_product_cpu, RowProduct>(ops, row_product_cpu_workspace);
  set_level<scaled_product_cpu, ScaledProduct>(ops, scaled_product_cpu_workspace);
  set_level<swiglu_backward_cpu, SwigluBackward>(ops);
  set_level<swiglu_forward_cpu, SwigluForward>(ops);
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
  int64_t multiprocessors() const override { return 0; }
  int64_t capability() const override { return 0; }
  bool tiles_work(Element type) const override { return gemm_tiles_work(type); }
  bool tiles_pay(Element type) const override { return gemm_tiles_pay(type); }
  void* allocate_on_host(int64_t bytes, const std::string& line) override { return allocate(bytes, line); }
  void release_on_host(void* pointer) override { release(pointer); }
  void store(void* on_host, const void* from, int64_t bytes, Stream) override { std::memcpy(on_host, from, static_cast<size_t>(bytes)); }
  void load(void* to, const void* on_host, int64_t bytes, Stream) override { std::memcpy(to, on_host, static_cast<size_t>(bytes)); }
  void host_touches(const void*, int64_t, bool) override {}
  void library_touches(const void*, int64_t, int64_t, int64_t, bool) override {}

  CudaStream native(Stream) const override { return nullptr; }
  Event new_event() override { return {}; }
  void record(Event, Stream) override {}
  void wait(Stream, Event) override {}
  void synchronize(Stream) override {}
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
  void forget_moments() override {}

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
