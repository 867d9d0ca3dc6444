#include "providers/fused/ops.h"

#include "core/base/error.h"
#include "core/graph/fold_gates.h"
#include "core/graph/ops.h"
#include "core/model/forward.h"
#include "providers/fused/experts.h"
#include "providers/fused/linear.h"
#include "providers/fused/offloaded.h"

namespace forge {
namespace {

// ---- rows ----

// Returns the factor rounded to the stream's type, in which transformers multiplies.
float factor_of(double scale, Element type) {
  const auto wide = static_cast<float>(scale);
  if (type == Element::f32) return wide;
  Bf16 bf16{};
  F16 f16{};
  from_float(wide, bf16), from_float(wide, f16);
  return type == Element::bf16 ? to_float(bf16) : to_float(f16);
}

const int64_t* rows_read(const FusedRun& r) {
  return r.op.attributes.by_position ? r.batch.position_ids : r.batch.ids;
}

void embed(const FusedRun& r) {
  const Element type = r.m.element(r.out(0));
  r.device.run(EmbeddingForward{.type = type,
                                .tokens = r.m.tokens,
                                .width = r.m.width(r.out(0)),
                                .vocab = r.module().rows,
                                .ids = rows_read(r),
                                .table = r.module().weight,
                                .y = r.m.data(r.out(0)),
                                .y_stride = r.m.stride(r.out(0)),
                                .scale = factor_of(r.op.attributes.scale, type),
                                .table_type = r.module().held});
}

void embed_backward(const FusedRun& r) {
  const Element type = r.m.element(r.in(0));
  r.device.run(EmbeddingBackward{.type = type,
                                 .tokens = r.m.tokens,
                                 .width = r.m.width(r.in(0)),
                                 .vocab = r.module().rows,
                                 .ids = rows_read(r),
                                 .d_y = r.m.data(r.in(0)),
                                 .d_y_stride = r.m.stride(r.in(0)),
                                 .d_table = r.module().d_weight,
                                 .scale = factor_of(r.op.attributes.scale, type),
                                 .frozen = r.op.attributes.frozen_row});
}

CopyRows copy_of(const FusedRun& r, ValueId from, ValueId to) {
  return {.element_bytes = bytes_of(r.m.element(from)),
          .rows = r.m.targets,
          .width = r.m.width(from),
          .x = r.m.data(from),
          .x_stride = r.m.stride(from),
          .y = r.m.data(to),
          .y_stride = r.m.stride(to)};
}

void gather(const FusedRun& r) {
  CopyRows args = copy_of(r, r.in(0), r.out(0));
  args.from = r.batch.loss_positions;
  r.device.run(args);
}

void scatter(const FusedRun& r) {
  FORGE_CHECK(!r.op.attributes.accumulate, "supervised rows of a value that has another gradient");
  r.device.clear(r.m.data(r.out(0)), r.m.tokens * r.m.stride(r.out(0)) * bytes_of(r.m.element(r.out(0))));
  CopyRows args = copy_of(r, r.in(0), r.out(0));
  args.to = r.batch.loss_positions;
  r.device.run(args);
}

// Adds. The first output is in the memory of the second input (add) or of the first (add_gradient);
// if the types differ, in its own.
void add(const FusedRun& r) {
  const ValueId sum = r.out(0);
  const bool apart = r.m.graph.buffer_of(r.in(1)).type != r.m.graph.buffer_of(sum).type;
  const ValueId more = r.op.kind == OpKind::add && !apart ? r.in(0) : r.in(1);
  AddRows args{r.m.element(sum), r.m.rows(sum), r.m.width(sum), r.m.data(more), r.m.stride(more), r.m.data(sum), r.m.stride(sum)};
  args.x_type = r.m.element(more);
  if (apart) args.to = r.m.data(r.in(0)), args.to_stride = r.m.stride(r.in(0));
  r.device.run(args);
}

// Scales in place, from one type to the other, or adds to a gradient.
void scale(const FusedRun& r) {
  const ValueId x = r.in(0), y = r.out(0);
  r.device.run(ScaleRows{.type = r.m.element(y),
                         .rows = r.m.rows(x),
                         .width = r.m.width(x),
                         .x = r.m.data(x),
                         .x_stride = r.m.stride(x),
                         .y = r.m.data(y),
                         .y_stride = r.m.stride(y),
                         .factor = static_cast<float>(r.op.attributes.scale),
                         .accumulate = r.op.attributes.accumulate,
                         .x_type = r.m.element(x)});
}

// ---- norm ----

// Normalises each head by itself. A head has the width of the whole row, except in norms of q and
// k.
void norm(const FusedRun& r) {
  const bool adds = r.op.kind == OpKind::add_norm;
  const ValueId x = r.in(adds ? 1 : 0), y = r.out(adds ? 1 : 0), inverse = r.out(adds ? 2 : 1);
  const int64_t width = r.op.attributes.head_dim;
  RmsNormForward args{.type = r.type(), .rows = r.m.rows(x), .width = width};
  args.stream_type = r.m.element(r.in(0));
  args.heads = r.m.width(x) / width;
  args.x = r.m.data(x), args.x_stride = r.m.stride(x);
  if (adds) {
    args.residual = r.m.data(r.in(0)), args.residual_stride = r.m.stride(r.in(0));
    args.h = r.m.data(r.out(0)), args.h_stride = r.m.stride(r.out(0));
  }
  args.weight = r.module().weight;
  args.weight_offset = static_cast<float>(r.op.attributes.weight_offset);
  args.eps = static_cast<float>(r.op.attributes.eps);
  args.y = r.m.data(y), args.y_stride = r.m.stride(y);
  args.inverse = r.m.numbers(inverse);
  r.device.run(args);
}

void norm_backward(const FusedRun& r) {
  const int64_t width = r.op.attributes.head_dim;
  const bool again = r.op.out.size() > 1;
  r.device.run(RmsNormBackward{.type = r.type(),
                               .rows = r.m.rows(r.in(0)),
                               .width = width,
                               .d_y = r.m.data(r.in(0)),
                               .d_y_stride = r.m.stride(r.in(0)),
                               .h = r.m.data(r.in(1)),
                               .h_stride = r.m.stride(r.in(1)),
                               .weight = r.module().weight,
                               .weight_offset = static_cast<float>(r.op.attributes.weight_offset),
                               .inverse = r.m.numbers(r.in(2)),
                               .d_h = r.m.data(r.out(0)),
                               .d_h_stride = r.m.stride(r.out(0)),
                               .accumulate = r.op.attributes.accumulate,
                               .d_weight = r.module().d_weight,
                               .heads = r.m.width(r.in(0)) / width,
                               .workspace = r.workspace,
                               .y = again ? r.m.data(r.out(1)) : nullptr,
                               .y_stride = again ? r.m.stride(r.out(1)) : 0,
                               .stream_type = r.m.element(r.in(1))});
}

void layer_norm(const FusedRun& r) {
  r.device.run(LayerNormForward{.type = r.type(),
                                .rows = r.m.rows(r.in(0)),
                                .width = r.m.width(r.in(0)),
                                .x = r.m.data(r.in(0)),
                                .x_stride = r.m.stride(r.in(0)),
                                .weight = r.module().weight,
                                .bias = r.module().bias,
                                .eps = static_cast<float>(r.op.attributes.eps),
                                .y = r.m.data(r.out(0)),
                                .y_stride = r.m.stride(r.out(0)),
                                .statistics = r.m.numbers(r.out(1)),
                                .x_type = r.m.element(r.in(0))});
}

void layer_norm_backward(const FusedRun& r) {
  r.device.run(LayerNormBackward{.type = r.type(),
                                 .rows = r.m.rows(r.in(0)),
                                 .width = r.m.width(r.in(0)),
                                 .d_y = r.m.data(r.in(0)),
                                 .d_y_stride = r.m.stride(r.in(0)),
                                 .x = r.m.data(r.in(1)),
                                 .x_stride = r.m.stride(r.in(1)),
                                 .weight = r.module().weight,
                                 .statistics = r.m.numbers(r.in(2)),
                                 .d_x = r.m.data(r.out(0)),
                                 .d_x_stride = r.m.stride(r.out(0)),
                                 .accumulate = r.op.attributes.accumulate,
                                 .d_weight = r.module().d_weight,
                                 .d_bias = r.module().d_bias,
                                 .workspace = r.workspace,
                                 .x_type = r.m.element(r.in(1))});
}

// ---- attention ----

void regroup(const FusedRun& r) {
  const Attributes& a = r.op.attributes;
  r.device.run(RegroupHeads{.element_bytes = r.bytes(),
                            .rows = r.m.rows(r.in(0)),
                            .heads = a.heads,
                            .kv_heads = a.kv_heads,
                            .head_dim = a.head_dim,
                            .to_groups = r.op.kind == OpKind::regroup_backward,
                            .x = r.m.data(r.in(0)),
                            .x_stride = r.m.stride(r.in(0)),
                            .y = r.m.data(r.out(0)),
                            .y_stride = r.m.stride(r.out(0))});
}

// Rotates q and k at once if they are consecutive in one row.
void rope(const FusedRun& r) {
  const Attributes& a = r.op.attributes;
  Rope args{.type = r.type(),
            .layout = a.interleaved ? RopeLayout::interleaved : RopeLayout::half_split,
            .backward = r.op.kind == OpKind::rope_backward,
            .tokens = r.m.tokens,
            .head_dim = a.head_dim,
            .rotary_dim = r.batch.rotary_dim,
            .cosine = a.window_angles ? r.batch.window_cosine : r.batch.cosine,
            .sine = a.window_angles ? r.batch.window_sine : r.batch.sine};
  const auto turn = [&](ValueId x, int64_t heads, int64_t kv_heads) {
    args.heads = heads, args.kv_heads = kv_heads;
    args.qkv = r.m.data(x), args.stride = r.m.stride(x);
    r.device.run(args);
  };
  const Value &q = r.m.graph.value(r.out(0)), &k = r.m.graph.value(r.out(1));
  if (q.buffer == k.buffer && q.column + q.width == k.column) return turn(r.out(0), a.heads, a.kv_heads);
  turn(r.out(0), a.heads, 0);
  turn(r.out(1), a.kv_heads, 0);
}

const void* sinks_of(const FusedRun& r) {
  if (r.op.modules.empty()) return nullptr;
  FORGE_CHECK(r.module().held == r.type(), "sinks in another type than they are computed in");
  return r.module().weight;
}

// Returns the arguments that forward and backward of attention share.
template <class Args>
Args attention_args(const FusedRun& r, ValueId out, ValueId lse) {
  const Attributes& a = r.op.attributes;
  Args args{.shape = {.type = r.type(),
                      .sequences = r.batch.sequences,
                      .cu_seqlens = r.batch.cu_seqlens,
                      .heads = a.heads,
                      .kv_heads = a.kv_heads,
                      .head_dim = a.head_dim,
                      .scale = static_cast<float>(a.scale),
                      .tokens = r.m.tokens,
                      .longest = r.batch.longest,
                      .window = a.window,
                      .softcap = static_cast<float>(a.softcap),
                      .deterministic = r.m.capacity.deterministic,
                      .multiprocessors = r.m.capacity.multiprocessors}};
  args.q = r.m.data(r.in(0)), args.q_stride = r.m.stride(r.in(0));
  args.k = r.m.data(r.in(1)), args.k_stride = r.m.stride(r.in(1));
  args.v = r.m.data(r.in(2)), args.v_stride = r.m.stride(r.in(2));
  args.out = r.m.data(out), args.out_stride = r.m.stride(out);
  args.lse = r.m.numbers(lse);
  args.shape.sinks = sinks_of(r);
  args.workspace = r.workspace;
  return args;
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
  args.sinks = sinks_of(r);
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
  r.device.run(attention_args<AttentionForward>(r, r.out(0), r.out(1)));
}

void attention_backward(const FusedRun& r) {
  auto args = attention_args<AttentionBackward>(r, r.in(3), r.in(4));
  args.d_out = r.m.data(r.in(5)), args.d_out_stride = r.m.stride(r.in(5));
  args.d_q = r.m.data(r.out(0)), args.d_q_stride = r.m.stride(r.out(0));
  args.d_k = r.m.data(r.out(1)), args.d_k_stride = r.m.stride(r.out(1));
  args.d_v = r.m.data(r.out(2)), args.d_v_stride = r.m.stride(r.out(2));
  if (!r.op.modules.empty()) args.d_sinks = r.module().d_weight;
  r.device.run(args);
}

// Assembles the heads, or in the backward splits their gradients.
void latent_heads(const FusedRun& r) {
  const Attributes& a = r.op.attributes;
  const bool back = r.op.kind == OpKind::latent_heads_backward;
  const std::vector<ValueId>& apart = back ? r.op.out : r.op.in;
  const ValueId all = back ? r.in(0) : r.out(0);
  r.device.run(LatentHeads{.type = r.type(),
                           .rows = r.m.rows(all),
                           .heads = a.heads,
                           .head_dim = a.head_dim,
                           .rope_dim = a.rope_dim,
                           .value_dim = a.value_dim,
                           .back = back,
                           .q = r.m.data(apart[0]),
                           .q_stride = r.m.stride(apart[0]),
                           .kv = r.m.data(apart[1]),
                           .kv_stride = r.m.stride(apart[1]),
                           .key = r.m.data(apart[2]),
                           .key_stride = r.m.stride(apart[2]),
                           .all = r.m.data(all),
                           .all_stride = r.m.stride(all)});
}

void trim_heads(const FusedRun& r) {
  const Attributes& a = r.op.attributes;
  const bool back = r.op.kind == OpKind::trim_heads_backward;
  const ValueId whole = back ? r.out(0) : r.in(0), trimmed = back ? r.in(0) : r.out(0);
  r.device.run(TrimHeads{.element_bytes = r.bytes(),
                         .rows = r.m.rows(whole),
                         .heads = a.heads,
                         .head_dim = a.head_dim,
                         .value_dim = a.value_dim,
                         .back = back,
                         .x = r.m.data(whole),
                         .x_stride = r.m.stride(whole),
                         .y = r.m.data(trimmed),
                         .y_stride = r.m.stride(trimmed)});
}

// ---- activations ----

void activation(const FusedRun& r) {
  r.device.run(ActivationForward{.type = r.type(),
                                 .function = function_of(r.op.attributes.activation),
                                 .rows = r.m.rows(r.in(0)),
                                 .width = r.m.width(r.in(0)),
                                 .x = r.m.data(r.in(0)),
                                 .x_stride = r.m.stride(r.in(0)),
                                 .y = r.m.data(r.out(0)),
                                 .y_stride = r.m.stride(r.out(0))});
}

void activation_backward(const FusedRun& r) {
  r.device.run(ActivationBackward{.type = r.type(),
                                  .function = function_of(r.op.attributes.activation),
                                  .rows = r.m.rows(r.in(0)),
                                  .width = r.m.width(r.in(0)),
                                  .d_y = r.m.data(r.in(0)),
                                  .d_y_stride = r.m.stride(r.in(0)),
                                  .x = r.m.data(r.in(1)),
                                  .x_stride = r.m.stride(r.in(1)),
                                  .d_x = r.m.data(r.out(0)),
                                  .d_x_stride = r.m.stride(r.out(0))});
}

template <class Args>
Args gate_args(const FusedRun& r, ValueId gate, ValueId up) {
  Args args{.type = r.type()};
  args.function = function_of(r.op.attributes.gate);
  args.rows = r.m.rows(gate), args.width = r.m.width(gate);
  args.gate = r.m.data(gate), args.gate_stride = r.m.stride(gate);
  args.up = r.m.data(up), args.up_stride = r.m.stride(up);
  return args;
}

template <class Args>
Args pairs_args(const FusedRun& r, ValueId pairs) {
  Args args{.type = r.type()};
  args.rows = r.m.rows(pairs), args.width = r.m.width(pairs) / 2;
  args.limit = static_cast<float>(r.op.attributes.gate_limit),
  args.alpha = static_cast<float>(r.op.attributes.gate_alpha);
  args.pairs = r.m.data(pairs), args.pairs_stride = r.m.stride(pairs);
  return args;
}

void clamped_glu(const FusedRun& r) {
  auto args = pairs_args<ClampedGluForward>(r, r.in(0));
  args.y = r.m.data(r.out(0)), args.y_stride = r.m.stride(r.out(0));
  r.device.run(args);
}

void clamped_glu_backward(const FusedRun& r) {
  auto args = pairs_args<ClampedGluBackward>(r, r.in(1));
  args.d_y = r.m.data(r.in(0)), args.d_y_stride = r.m.stride(r.in(0));
  if (r.op.out.size() > 1) args.y = r.m.data(r.out(1)), args.y_stride = r.m.stride(r.out(1));
  r.device.run(args);
}

void glu(const FusedRun& r) {
  if (r.op.attributes.gate == GateKind::clamped) return clamped_glu(r);
  auto args = gate_args<SwigluForward>(r, r.in(0), r.in(1));
  args.y = r.m.data(r.out(0)), args.y_stride = r.m.stride(r.out(0));
  r.device.run(args);
}

void glu_backward(const FusedRun& r) {
  if (r.op.attributes.gate == GateKind::clamped) return clamped_glu_backward(r);
  auto args = gate_args<SwigluBackward>(r, r.in(1), r.in(2));
  args.d_y = r.m.data(r.in(0)), args.d_y_stride = r.m.stride(r.in(0));
  if (r.op.out.size() > 2) args.y = r.m.data(r.out(2)), args.y_stride = r.m.stride(r.out(2));
  r.device.run(args);
}

void run_op(const FusedRun& r);

// Runs one kernel, or the op's parts one after the other.
void gate_with_adapters(const FusedRun& r) {
  if (fused::gate_with_adapters(r)) return;
  for (const Op& part : gate_parts(r.op)) run_op({r.device, r.m, part, r.workspace, r.modules, r.batch});
}

void run_op(const FusedRun& r) {
  switch (r.op.kind) {
    case OpKind::embed:
      return embed(r);
    case OpKind::gather:
      return gather(r);
    case OpKind::add:
      return add(r);
    case OpKind::norm:
    case OpKind::add_norm:
      return norm(r);
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
      return latent_heads(r);
    case OpKind::trim_heads:
    case OpKind::trim_heads_backward:
      return trim_heads(r);
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
      return add(r);
    case OpKind::scale:
    case OpKind::scale_backward:
    case OpKind::cast:
    case OpKind::cast_backward:
      return scale(r);
    case OpKind::layer_norm:
      return layer_norm(r);
    case OpKind::layer_norm_backward:
      return layer_norm_backward(r);
    case OpKind::regroup:
    case OpKind::regroup_backward:
      return regroup(r);
    case OpKind::activation:
      return activation(r);
    case OpKind::activation_backward:
      return activation_backward(r);
    case OpKind::norm_backward:
      return norm_backward(r);
    case OpKind::linear_input_gradient:
      return fused::linear_input_gradient(r);
    case OpKind::linear_weight_gradient:
      return fused::linear_weight_gradient(r);
    case OpKind::adapter_gradient:
      return fused::adapter_gradient(r);
    case OpKind::rope_backward:
      return rope(r);
    case OpKind::attention_backward:
      return attention_backward(r);
    case OpKind::glu_backward:
      return glu_backward(r);
    case OpKind::embed_backward:
      return embed_backward(r);
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
  run_op({device, memory, memory.graph.ops[index], memory.workspace(index), modules, batch});
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
      fused::place_adapters({device, memory, op, nullptr, modules, none});
}

}  // namespace forge
