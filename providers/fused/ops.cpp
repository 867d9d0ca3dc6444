#include "providers/fused/ops.h"

#include <algorithm>

#include "core/lib/base/error.h"
#include "core/model/graph/fold_gates.h"
#include "core/model/graph/ops.h"
#include "providers/fused/experts.h"
#include "providers/fused/linear.h"
#include "providers/fused/offloaded.h"

namespace forge {
namespace {

void scatter(const FusedRun& r) {
  const ValueId all = r.out(0);
  r.device.clear(r.m.data(all), r.tokens() * r.m.stride(all) * bytes_of(r.m.element(all)));
  r.device.run(bind::scatter(r));
}

void rope(const FusedRun& r) {
  for (const Rope& turn : bind::rope(r)) r.device.run(turn);
}

void store_in_cache(const FusedRun& r) {
  const CachePlaces& places = *r.batch.cache;
  CacheStore args{places.shape, r.tokens(), places.sequences.data(), places.positions.data()};
  args.k = r.m.data(r.in(1)), args.k_stride = r.m.stride(r.in(1));
  args.v = r.m.data(r.in(2)), args.v_stride = r.m.stride(r.in(2));
  args.keys = places.keys(r.op.layer), args.values = places.values(r.op.layer);
  r.device.run(args);
}

void cached_attention(const FusedRun& r) {
  const CachePlaces& places = *r.batch.cache;
  const Attributes& a = r.op.attributes;
  CachedAttention args{places.shape, static_cast<int64_t>(places.lengths.size()), a.heads, a.window};
  args.scale = static_cast<float>(a.scale), args.softcap = static_cast<float>(a.softcap);
  args.sinks = bind::sinks(r);
  args.lengths = places.lengths.data();
  args.q = r.m.data(r.in(0)), args.q_stride = r.m.stride(r.in(0));
  args.keys = places.keys(r.op.layer), args.values = places.values(r.op.layer);
  args.out = r.m.data(r.out(0)), args.out_stride = r.m.stride(r.out(0));
  args.workspace = r.workspace;  // the one for attention over blocks is larger
  r.device.run(args);
}

void attention(const FusedRun& r) {
  if (r.batch.cache) {
    store_in_cache(r);
    if (!r.batch.cache->begins) return cached_attention(r);
  }
  r.device.run(bind::attention(r));
}

void glu(const FusedRun& r) {
  r.op.attributes.gate == GateKind::clamped ? r.device.run(bind::clamped_glu(r)) : r.device.run(bind::glu(r));
}

void glu_backward(const FusedRun& r) {
  r.op.attributes.gate == GateKind::clamped ? r.device.run(bind::clamped_glu_backward(r)) : r.device.run(bind::glu_backward(r));
}

// Runs one kernel, or the op's parts one after the other.
void gate_with_adapters(const FusedRun& r) {
  if (fused::gate_with_adapters(r)) return;
  for (const Op& part : gate_parts(r.op)) run_op(FusedRun(r, part));
}

// Runs the one kernel whose arguments a function of bind.h makes.
template <auto kArguments>
void by(const FusedRun& r) {
  r.device.run(kArguments(r));
}

struct OpRow {
  OpKind kind;
  void (*run)(const FusedRun&);
};

// The ops of layers.
constexpr OpRow kOps[] = {
    {OpKind::embed, by<bind::embed>},
    {OpKind::embed_backward, by<bind::embed_backward>},
    {OpKind::gather, by<bind::gather>},
    {OpKind::scatter, scatter},
    {OpKind::add, by<bind::add>},
    {OpKind::add_gradient, by<bind::add>},
    {OpKind::scale, by<bind::scale>},
    {OpKind::scale_backward, by<bind::scale>},
    {OpKind::cast, by<bind::scale>},
    {OpKind::cast_backward, by<bind::scale>},
    {OpKind::norm, by<bind::norm>},
    {OpKind::add_norm, by<bind::norm>},
    {OpKind::norm_backward, by<bind::norm_backward>},
    {OpKind::layer_norm, by<bind::layer_norm>},
    {OpKind::layer_norm_backward, by<bind::layer_norm_backward>},
    {OpKind::linear, fused::linear},
    {OpKind::linear_input_gradient, fused::linear_input_gradient},
    {OpKind::linear_weight_gradient, fused::linear_weight_gradient},
    {OpKind::adapter_gradient, fused::adapter_gradient},
    {OpKind::adapter_sums, fused::adapter_sums},
    {OpKind::adapter_sums_gradient, fused::adapter_sums_gradient},
    {OpKind::adapter_input_gradient, fused::adapter_input_gradient},
    {OpKind::dora_ratio, fused::dora_ratio},
    {OpKind::dora, fused::dora},
    {OpKind::dora_backward, fused::dora_backward},
    {OpKind::rope, rope},
    {OpKind::rope_backward, rope},
    {OpKind::attention, attention},
    {OpKind::attention_backward, by<bind::attention_backward>},
    {OpKind::regroup, by<bind::regroup>},
    {OpKind::regroup_backward, by<bind::regroup>},
    {OpKind::latent_heads, by<bind::latent_heads>},
    {OpKind::latent_heads_backward, by<bind::latent_heads>},
    {OpKind::trim_heads, by<bind::trim_heads>},
    {OpKind::trim_heads_backward, by<bind::trim_heads>},
    {OpKind::glu, glu},
    {OpKind::glu_backward, glu_backward},
    {OpKind::glu_sums, gate_with_adapters},
    {OpKind::glu_adapters_backward, gate_with_adapters},
    {OpKind::activation, by<bind::activation>},
    {OpKind::activation_backward, by<bind::activation_backward>},
    {OpKind::gate_rows, fused::gate_rows},
    {OpKind::gate_rows_backward, fused::gate_rows_backward},
    {OpKind::route, fused::route},
    {OpKind::route_backward, fused::route_backward},
    {OpKind::dispatch, fused::dispatch},
    {OpKind::dispatch_backward, fused::dispatch},
    {OpKind::combine, fused::combine},
    {OpKind::combine_backward, fused::combine_backward},
    {OpKind::expert_linear, fused::expert_linear},
    {OpKind::expert_input_gradient, fused::expert_input_gradient},
    {OpKind::expert_weight_gradient, fused::expert_weight_gradient},
    {OpKind::expert_adapter_gradient, fused::expert_adapter_gradient},
    {OpKind::store, fused::store},
    {OpKind::load, fused::load},
    {OpKind::stored, fused::wait_for_copy},
    {OpKind::loaded, fused::wait_for_copy},
};

}  // namespace

void run_op(const FusedRun& r) {
  const auto* row = std::find_if(std::begin(kOps), std::end(kOps), [&](const OpRow& op) { return op.kind == r.op.kind; });
  FORGE_CHECK(row != std::end(kOps), name_of(r.op.kind) << " is not an op of a layer");
  row->run(r);
}

void run_op(ComputeDevice& device, const StepMemory& memory, size_t index, StepWeights& weights, const StepBatch& batch) {
  run_op(FusedRun(device, memory, memory.graph.ops[index], memory.workspace(index), weights, batch));
}

void row_product(ComputeDevice& device, RowProduct args, std::vector<char>& scratch) {
  const auto bytes = static_cast<size_t>(device.workspace(args));
  if (scratch.size() < bytes) scratch.resize(bytes);
  args.workspace = scratch.data();
  device.run(args);
}

void place_adapters(ComputeDevice& device, const StepMemory& memory, StepWeights& weights) {
  const StepBatch none;
  for (size_t i = 0; i < memory.graph.forward_ops; ++i)
    if (const Op& op = memory.graph.ops[i]; op.kind == OpKind::linear && op.attributes.folded)
      fused::place_adapters(FusedRun(device, memory, op, nullptr, weights, none));
}

}  // namespace forge
