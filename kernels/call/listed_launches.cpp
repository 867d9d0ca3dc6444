#include "kernels/call/listed_launches.h"

#include <algorithm>

#include "kernels/activation/activation_args.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/call/run.h"
#include "kernels/delta_rule/delta_rule_op.h"
#include "kernels/dora/dora_op.h"
#include "kernels/embedding/embedding_args.h"
#include "kernels/experts/expert_linear_op.h"
#include "kernels/experts/experts_args.h"
#include "kernels/fp8/fp8_args.h"
#include "kernels/latent/heads_op.h"
#include "kernels/latent/latent_args.h"
#include "kernels/layer_norm/layer_norm_args.h"
#include "kernels/lm_head/head_op.h"
#include "kernels/lora/folded_cuda.h"
#include "kernels/lora/gated_cuda.h"
#include "kernels/lora/lora_cuda.h"
#include "kernels/optimizer/update_op.h"
#include "kernels/quantize/quantize_args.h"
#include "kernels/rms_norm/rms_norm_args.h"
#include "kernels/rope/rope_args.h"
#include "kernels/rows/rows_args.h"
#include "kernels/short_conv/short_conv_args.h"
#include "kernels/swiglu/swiglu_args.h"

namespace forge {
namespace {

// A GPU that is given work and keeps its launches. Its memory is only addresses.
class ListingDevice : public ComputeDevice {
 public:
  explicit ListingDevice(const StepSizes& sizes);

  void add(GpuLaunches launches) { list_.insert(list_.end(), launches.begin(), launches.end()); }
  GpuLaunches take() { return std::move(list_); }

  // Places of converted weights count as modules.
  void* allocate(int64_t bytes, const std::string&) override {
    return reinterpret_cast<void*>(std::exchange(next_, next_ + static_cast<uintptr_t>(bytes)));
  }
  void release(void*) override {}
  bool separate() const override { return true; }
  int64_t multiprocessors() const override { return sizes_.multiprocessors; }
  int64_t capability() const override { return sizes_.capability; }
  void store(void*, const void*, int64_t bytes, Stream) override { copy("copy from the device", bytes); }
  void load(void*, const void*, int64_t bytes, Stream) override { copy("copy to the device", bytes); }
  CudaStream native(Stream) const override { return reinterpret_cast<CudaStream>(const_cast<ListingDevice*>(this)); }
  void clear(void*, int64_t bytes, Stream) override { copy("clear", bytes); }
  void write(void*, const void*, int64_t, Stream) override {}
  void read(void*, const void*, int64_t, Stream) override {}
  std::shared_ptr<Fetched> fetch(const void*, int64_t, Stream) override { return nullptr; }
  Moment mark() override { return {}; }
  double seconds(Moment, Moment) override { return 0; }
  std::unique_ptr<Captured> capture(const std::function<void()>&) override { return nullptr; }
  void replay(const Captured&) override {}

 private:
  void copy(const char* name, int64_t bytes) { list_.push_back({name, static_cast<double>(bytes)}); }

  const StepSizes& sizes_;
  GpuLaunches list_;
  uintptr_t next_ = 2 * kListedModules;
};

ListingDevice& device_of(CudaStream stream) { return *reinterpret_cast<ListingDevice*>(stream); }

template <class Args>
constexpr bool kListed = requires(const Args& args) { launches(args); };

// Sets the rows of ops by their launches.
template <class... Args>
void set_runs(DeviceOps& ops) {
  const auto set = [&]<class Op>(DeviceOp<Op>& op) {
    if constexpr (kListed<Op>)
      op.run = [](const Op& args, CudaStream stream) { device_of(stream).add(launches(args)); };
    else
      op.run = [](const Op& args, CudaStream stream) { device_of(stream).add(launches(args, device_of(stream).capability())); };
  };
  (set(ops.row<Args>()), ...);
}

const DeviceOps& listing_ops() {
  static const DeviceOps all = [] {
    DeviceOps ops;
    set_runs<ActivationBackward, ActivationForward, AdapterSums, AdapterSumsGradient, AddRows, AttentionBackward, AttentionForward,
             ClampedGluBackward, ClampedGluForward, ConvertElements, CopyRows, DequantizeBlocks, EmbeddingBackward, EmbeddingForward,
             ExpertCombine, ExpertCombineBackward, ExpertRoute, ExpertRouteBackward, ExpertRows, GateRows, GateRowsBackward,
             GatedGradients, GatedSums, Gemm, LatentHeads, LayerNormBackward, LayerNormForward, LoraBackward, LoraForward, QuantizeRows,
             RegroupHeads, RmsNormBackward, RmsNormForward, Rope, ScaleRows, ScaledProduct, ShortConvBackward, ShortConvForward, SumColumns, SwigluBackward, SwigluForward,
             TransposeBytes, TrimHeads>(ops);
    ops.set_refusals(thin_refusal<AdapterSums>, thin_refusal<AdapterSumsGradient>);
    ops.row<GatedGradients>().refusal = gated_refusal;
    ops.row<GatedSums>().refusal = gated_refusal;
    return ops;
  }();
  return all;
}

ListingDevice::ListingDevice(const StepSizes& sizes) : ComputeDevice(listing_ops()), sizes_(sizes) {}

bool is_listed(OpKind kind) {
  constexpr OpKind kUnlisted[] = {&ops::expert_linear, &ops::expert_input_gradient, &ops::expert_weight_gradient,
                                  &ops::expert_adapter_gradient, &ops::dora_ratio, &ops::dora, &ops::dora_backward,
                                  &ops::head, &ops::evaluate, &ops::gradient_norm, &ops::update, &ops::delta_gates, &ops::delta_gates_backward, &ops::delta_rule,
                                  &ops::delta_rule_backward, &ops::step_gates, &ops::step_gates_backward, &ops::state_space,
                                  &ops::state_space_backward, &ops::split_groups, &ops::split_groups_backward};
  return std::find(std::begin(kUnlisted), std::end(kUnlisted), kind) == std::end(kUnlisted);
}

}  // namespace

GpuLaunches listed_launches(const Graph& graph, const Op& op, const StepSizes& sizes, const GpuStep& step) {
  if (!is_listed(op.kind)) return {};
  ListingDevice device(sizes);
  const PlannedCall planned(graph, op, sizes, step);
  const Call& call = planned;
  StepWeights weights(device, graph.modules, call.type(), planned.modules(), call.first_module);
  weights.reserve(/*ahead=*/false);
  run_op(OpRun(device, call.m, op, call.workspace, weights, call.batch));
  return device.take();
}

}  // namespace forge
