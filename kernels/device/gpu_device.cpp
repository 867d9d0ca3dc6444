#include "kernels/device/gpu_device.h"

#include <array>
#include <cstring>
#include <map>
#include <vector>

#include "kernels/activation/activation_args.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/device/runtime.h"
#include "kernels/dora/dora_args.h"
#include "kernels/embedding/embedding_args.h"
#include "kernels/experts/experts_args.h"
#include "kernels/fp8/fp8_args.h"
#include "kernels/latent/latent_args.h"
#include "kernels/layer_norm/layer_norm_args.h"
#include "kernels/lm_head/lm_head_cuda.h"
#include "kernels/lora/folded_cuda.h"
#include "kernels/lora/gated_cuda.h"
#include "kernels/lora/lora_cuda.h"
#include "kernels/optimizer/optimizer_args.h"
#include "kernels/quantize/quantize_args.h"
#include "kernels/rms_norm/rms_norm_args.h"
#include "kernels/rope/rope_args.h"
#include "kernels/rows/rows_args.h"
#include "kernels/short_conv/short_conv_args.h"
#include "kernels/swiglu/swiglu_args.h"

namespace forge {
namespace {

DeviceOps gpu_ops() {
  DeviceOps ops;
  ops.set_runs(activation_backward_cuda, activation_forward_cuda, adamw_8bit_cuda, adamw_cuda,
               adapter_sums_cuda, adapter_sums_gradient_cuda, add_rows_cuda,
               attention_backward_cuda, attention_forward_cuda, clamped_glu_backward_cuda,
               clamped_glu_forward_cuda, convert_elements_cuda, copy_rows_cuda,
               dequantize_blocks_cuda, device_gemm, device_gemm_group, dora_backward_cuda,
               dora_forward_cuda, dora_ratio_cuda, embedding_backward_cuda, embedding_forward_cuda,
               expert_combine_backward_cuda, expert_combine_cuda, expert_route_backward_cuda,
               expert_route_cuda, expert_rows_cuda, gate_rows_backward_cuda, gate_rows_cuda,
               gated_gradients_cuda, gated_sums_cuda, gradient_norm_cuda, latent_heads_cuda,
               layer_norm_backward_cuda, layer_norm_forward_cuda, lion_cuda, lm_head_cuda,
               lora_backward_cuda, lora_forward_cuda, quantize_rows_cuda, regroup_heads_cuda,
               rms_norm_backward_cuda, rms_norm_forward_cuda, rope_cuda, scale_rows_cuda,
               scaled_product_cuda, short_conv_backward_cuda, short_conv_forward_cuda, sum_columns_cuda, swiglu_backward_cuda, swiglu_forward_cuda,
               transpose_bytes_cuda, trim_heads_cuda);
  ops.set_workspaces(device_gemm_workspace, gradient_norm_cuda_workspace);
  ops.set_refusals(thin_refusal<AdapterSums>, thin_refusal<AdapterSumsGradient>,
                   dequantize_blocks_cuda_refusal, embedding_forward_cuda_refusal,
                   scaled_product_cuda_refusal, short_conv_backward_cuda_refusal, short_conv_forward_cuda_refusal);
  ops.row<GatedGradients>().refusal = gated_refusal;
  ops.row<GatedSums>().refusal = gated_refusal;
  return ops;
}

// Pinned memory that a copy passes through.
struct Slot {
  void* memory = nullptr;
  int64_t bytes = 0;
  runtime::EventHandle done = nullptr;

  void reserve(int64_t wanted) {
    if (bytes >= wanted) return;
    if (memory) runtime::release_pinned(memory);
    memory = runtime::allocate_pinned(wanted), bytes = wanted;
  }
};

// The slots of copies to the device, a few at a time: a slot is used again when its copy is done.
class Staging {
 public:
  // Returns the next slot. Waits until the slot may be written.
  Slot& next(int64_t bytes) {
    Slot& slot = slots_[next_++ % slots_.size()];
    if (!slot.done) slot.done = runtime::new_event();
    runtime::wait_for(slot.done);
    slot.reserve(bytes);
    return slot;
  }

 private:
  std::array<Slot, 16> slots_;
  size_t next_ = 0;
};

// A slot that is returned to the free ones when the last owner of the fetch releases it.
class Fetch : public Fetched {
 public:
  Fetch(std::vector<Slot>& free, const void* from, int64_t bytes, CudaStream stream)
      : free_(free), bytes_(bytes) {
    if (!free_.empty()) slot_ = free_.back(), free_.pop_back();
    if (!slot_.done) slot_.done = runtime::new_event();
    slot_.reserve(bytes);
    runtime::copy_out(slot_.memory, from, bytes, stream);
    runtime::record(slot_.done, stream);
  }
  ~Fetch() override { free_.push_back(slot_); }
  void take(void* host) override {
    runtime::wait_for(slot_.done);
    runtime::host_touches(slot_.memory, bytes_, /*writes=*/false);
    std::memcpy(host, slot_.memory, static_cast<size_t>(bytes_));
  }

 private:
  std::vector<Slot>& free_;
  Slot slot_;
  int64_t bytes_;
};

struct Graph : Captured {
  explicit Graph(runtime::GraphHandle handle) : handle(handle) {}
  ~Graph() override { runtime::destroy(handle); }
  const runtime::GraphHandle handle;
};

class GpuDevice : public ComputeDevice {
 public:
  GpuDevice(const DeviceOps& ops, int gpu)
      : ComputeDevice(ops),
        streams_{runtime::use(gpu), runtime::new_stream(gpu), runtime::new_stream(gpu)},
        gpu_(gpu) {}

  void* allocate(int64_t bytes, const std::string& line) override {
    return runtime::allocate(bytes, line, native(Stream::compute));
  }
  void release(void* pointer) override { runtime::release(pointer); }
  bool separate() const override { return true; }
  int64_t multiprocessors() const override { return runtime::multiprocessors(gpu_); }
  int64_t capability() const override { return runtime::capability(gpu_); }
  void* allocate_on_host(int64_t bytes, const std::string& line) override { return runtime::allocate_visible(bytes, line); }
  void release_on_host(void* pointer) override { runtime::release_visible(pointer); }
  void store(void* on_host, const void* from, int64_t bytes, Stream stream) override { runtime::copy_out(on_host, from, bytes, native(stream)); }
  void load(void* to, const void* on_host, int64_t bytes, Stream stream) override { runtime::copy_in(to, on_host, bytes, native(stream)); }
  void host_touches(const void* pointer, int64_t bytes, bool writes) override { runtime::host_touches(pointer, bytes, writes); }
  void library_touches(const void* rows, int64_t count, int64_t bytes, int64_t stride_bytes, bool writes) override {
    runtime::library_touches(rows, count, bytes, stride_bytes, writes, native(Stream::compute));
  }

  CudaStream native(Stream stream) const override { return streams_[static_cast<size_t>(stream)]; }
  Event new_event() override { return {runtime::new_event()}; }
  void record(Event event, Stream stream) override { runtime::record(event.handle, native(stream)); }
  void wait(Stream stream, Event event) override { runtime::wait(native(stream), event.handle); }
  void synchronize(Stream stream) override { runtime::synchronize(native(stream)); }
  void clear(void* at, int64_t bytes, Stream stream) override { runtime::clear(at, bytes, native(stream)); }

  void write(void* to, const void* host, int64_t bytes, Stream stream) override {
    Slot& slot = staging_.next(bytes);
    runtime::host_touches(slot.memory, bytes, /*writes=*/true);
    std::memcpy(slot.memory, host, static_cast<size_t>(bytes));
    runtime::copy_in(to, slot.memory, bytes, native(stream));
    runtime::record(slot.done, native(stream));
  }
  void read(void* host, const void* from, int64_t bytes, Stream stream) override {
    Slot& slot = staging_.next(bytes);
    runtime::copy_out(slot.memory, from, bytes, native(stream));
    runtime::synchronize(native(stream));
    runtime::host_touches(slot.memory, bytes, /*writes=*/false);
    std::memcpy(host, slot.memory, static_cast<size_t>(bytes));
  }

  std::shared_ptr<Fetched> fetch(const void* from, int64_t bytes, Stream stream) override {
    return std::make_shared<Fetch>(fetching_, from, bytes, native(stream));
  }

  Moment mark() override {
    if (marked_ == moments_.size()) moments_.push_back(runtime::new_timed_event());
    runtime::record(moments_[marked_], native(Stream::compute));
    return {static_cast<int64_t>(marked_++)};
  }
  double seconds(Moment from, Moment to) override {
    const auto event = [&](Moment moment) { return moments_[static_cast<size_t>(moment.number)]; };
    return runtime::seconds_between(event(from), event(to));
  }
  void forget_moments() override { marked_ = 0; }

  std::unique_ptr<Captured> capture(const std::function<void()>& work) override {
    runtime::begin_capture(native(Stream::compute));
    try {
      work();
    } catch (...) {
      runtime::abandon_capture(native(Stream::compute));
      throw;
    }
    return std::make_unique<Graph>(runtime::end_capture(native(Stream::compute)));
  }
  void replay(const Captured& captured) override {
    runtime::replay(static_cast<const Graph&>(captured).handle, native(Stream::compute));
  }

 private:
  std::array<CudaStream, kStreams> streams_;
  int gpu_;
  Staging staging_;
  std::vector<Slot> fetching_;
  std::vector<runtime::EventHandle> moments_;  // the first of them marked
  size_t marked_ = 0;
};

}  // namespace

ComputeDevice& gpu_device(int gpu) {
  static const DeviceOps ops = gpu_ops();
  static std::map<int, GpuDevice> devices;
  ComputeDevice& device = devices.try_emplace(gpu, ops, gpu).first->second;
  runtime::use(gpu);
  return device;
}

}  // namespace forge
