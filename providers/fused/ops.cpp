#include "providers/fused/ops.h"

#include "core/lib/base/error.h"
#include "core/model/graph/fold_gates.h"
#include "core/model/graph/ops.h"
#include "providers/fused/experts.h"
#include "providers/fused/linear.h"
#include "providers/fused/kv_cache.h"
#include "providers/fused/offloaded.h"

namespace forge {
namespace {

void scatter(const FusedRun& r) {
  const ValueId all = r.out(0);
  r.device.clear(r.m.data(all), r.m.tokens * r.m.stride(all) * bytes_of(r.m.element(all)));
  r.device.run(bind::scatter(r));
}

void rope(const FusedRun& r) {
  for (const Rope& turn : bind::rope(r)) r.device.run(turn);
}

void store_in_cache(const FusedRun& r) {
  const CachePlaces& places = *r.batch.cache;
  CacheStore args{places.shape, r.m.tokens, places.sequences.data(), places.positions.data()};
  args.k = r.m.data(r.in(1)), args.k_stride = r.m.stride(r.in(1));
  args.v = r.m.data(r.in(2)), args.v_stride = r.m.stride(r.in(2));
  args.keys = places.cache->keys(r.op.layer), args.values = places.cache->values(r.op.layer);
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
  args.keys = places.cache->keys(r.op.layer), args.values = places.cache->values(r.op.layer);
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

void run_op(const FusedRun& r);

// Runs one kernel, or the op's parts one after the other.
void gate_with_adapters(const FusedRun& r) {
  if (fused::gate_with_adapters(r)) return;
  for (const Op& part : gate_parts(r.op)) run_op(FusedRun(r, part));
}

void run_op(const FusedRun& r) {
  switch (r.op.kind) {
    case OpKind::embed:
      return r.device.run(bind::embed(r));
    case OpKind::gather:
      return r.device.run(bind::gather(r));
    case OpKind::add:
      return r.device.run(bind::add(r));
    case OpKind::norm:
    case OpKind::add_norm:
      return r.device.run(bind::norm(r));
    case OpKind::linear:
      return fused::linear(r);
    case OpKind::adapter_sums:
      return fused::adapter_sums(r);
    case OpKind::adapter_sums_gradient:
      return fused::adapter_sums_gradient(r);
    case OpKind::adapter_input_gradient:
      return fused::adapter_input_gradient(r);
    case OpKind::dora_ratio:
      return fused::dora_ratio(r);
    case OpKind::dora:
      return fused::dora(r);
    case OpKind::dora_backward:
      return fused::dora_backward(r);
    case OpKind::rope:
      return rope(r);
    case OpKind::attention:
      return attention(r);
    case OpKind::glu:
      return glu(r);
    case OpKind::glu_sums:
    case OpKind::glu_adapters_backward:
      return gate_with_adapters(r);
    case OpKind::head:
    case OpKind::evaluate:
    case OpKind::gradient_norm:
    case OpKind::update:
      break;
    case OpKind::latent_heads:
    case OpKind::latent_heads_backward:
      return r.device.run(bind::latent_heads(r));
    case OpKind::trim_heads:
    case OpKind::trim_heads_backward:
      return r.device.run(bind::trim_heads(r));
    case OpKind::gate_rows:
      return fused::gate_rows(r);
    case OpKind::gate_rows_backward:
      return fused::gate_rows_backward(r);
    case OpKind::route:
      return fused::route(r);
    case OpKind::route_backward:
      return fused::route_backward(r);
    case OpKind::dispatch:
    case OpKind::dispatch_backward:
      return fused::dispatch(r);
    case OpKind::expert_linear:
      return fused::expert_linear(r);
    case OpKind::expert_input_gradient:
      return fused::expert_input_gradient(r);
    case OpKind::expert_weight_gradient:
      return fused::expert_weight_gradient(r);
    case OpKind::expert_adapter_gradient:
      return fused::expert_adapter_gradient(r);
    case OpKind::combine:
      return fused::combine(r);
    case OpKind::combine_backward:
      return fused::combine_backward(r);
    case OpKind::scatter:
      return scatter(r);
    case OpKind::add_gradient:
      return r.device.run(bind::add(r));
    case OpKind::scale:
    case OpKind::scale_backward:
    case OpKind::cast:
    case OpKind::cast_backward:
      return r.device.run(bind::scale(r));
    case OpKind::layer_norm:
      return r.device.run(bind::layer_norm(r));
    case OpKind::layer_norm_backward:
      return r.device.run(bind::layer_norm_backward(r));
    case OpKind::regroup:
    case OpKind::regroup_backward:
      return r.device.run(bind::regroup(r));
    case OpKind::activation:
      return r.device.run(bind::activation(r));
    case OpKind::activation_backward:
      return r.device.run(bind::activation_backward(r));
    case OpKind::norm_backward:
      return r.device.run(bind::norm_backward(r));
    case OpKind::linear_input_gradient:
      return fused::linear_input_gradient(r);
    case OpKind::linear_weight_gradient:
      return fused::linear_weight_gradient(r);
    case OpKind::adapter_gradient:
      return fused::adapter_gradient(r);
    case OpKind::rope_backward:
      return rope(r);
    case OpKind::attention_backward:
      return r.device.run(bind::attention_backward(r));
    case OpKind::glu_backward:
      return glu_backward(r);
    case OpKind::embed_backward:
      return r.device.run(bind::embed_backward(r));
    case OpKind::store:
      return fused::store(r);
    case OpKind::load:
      return fused::load(r);
    case OpKind::stored:
    case OpKind::loaded:
      return fused::wait_for_copy(r);
  }
  FORGE_CHECK(false, name_of(r.op.kind) << " is not an op of a layer");
}

}  // namespace

void run_op(ComputeDevice& device, const StepMemory& memory, size_t index, FusedModules& modules, const StepBatch& batch) {
  run_op(FusedRun(device, memory, memory.graph.ops[index], memory.workspace(index), modules, batch));
}

void row_product(ComputeDevice& device, RowProduct args, std::vector<char>& scratch) {
  const auto bytes = static_cast<size_t>(device.workspace(args));
  if (scratch.size() < bytes) scratch.resize(bytes);
  args.workspace = scratch.data();
  device.run(args);
}

void place_adapters(ComputeDevice& device, const StepMemory& memory, FusedModules& modules) {
  const StepBatch none;
  for (size_t i = 0; i < memory.graph.forward_ops; ++i)
    if (const Op& op = memory.graph.ops[i]; op.kind == OpKind::linear && op.attributes.folded)
      fused::place_adapters(FusedRun(device, memory, op, nullptr, modules, none));
}

}  // namespace forge
