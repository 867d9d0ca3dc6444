#include "providers/fused/cpu_ops.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/graph/ops.h"
#include "core/model/forward.h"
#include "kernels/attention/attention_args.h"
#include "kernels/embedding/embedding_args.h"
#include "kernels/product/product_args.h"
#include "kernels/rms_norm/rms_norm_args.h"
#include "kernels/rope/rope_args.h"
#include "kernels/swiglu/swiglu_args.h"
#include "providers/fused/cpu_linear.h"

namespace forge {
namespace {

// ---- rows ----

void embed(const CpuRun& r) {
  const at::Tensor& table = *r.module().vector;
  const double scale = rounded(r.op.attributes.scale, r.m.type);
  if (table.scalar_type() == r.m.type) {
    embedding_forward_cpu({.type = r.type(),
                           .tokens = r.m.tokens,
                           .width = r.m.width(r.out(0)),
                           .vocab = table.size(0),
                           .ids = r.tensors().token_ids.const_data_ptr<int64_t>(),
                           .table = table.data_ptr(),
                           .y = r.m.data(r.out(0)),
                           .y_stride = r.m.stride(r.out(0)),
                           .scale = static_cast<float>(scale)});
    return;
  }
  r.m.tensor(r.out(0)).copy_(at::embedding(table, r.tensors().token_ids));
  if (scale != 1) r.m.tensor(r.out(0)).mul_(scale);
}

void embed_backward(const CpuRun& r) {
  Trainable& table = *r.module().weight;
  const int64_t frozen = r.op.attributes.frozen_row;
  std::vector<float> before;
  float* row = nullptr;
  if (frozen >= 0) {
    row = table.grad.data_ptr<float>() + frozen * r.m.width(r.in(0));
    before.assign(row, row + r.m.width(r.in(0)));
  }
  embedding_backward_cpu({.type = r.type(),
                          .tokens = r.m.tokens,
                          .width = r.m.width(r.in(0)),
                          .vocab = table.grad.size(0),
                          .ids = r.tensors().token_ids.const_data_ptr<int64_t>(),
                          .d_y = r.m.data(r.in(0)),
                          .d_y_stride = r.m.stride(r.in(0)),
                          .d_table = table.grad.data_ptr<float>(),
                          .scale = static_cast<float>(rounded(r.op.attributes.scale, r.m.type))});
  std::copy(before.begin(), before.end(), row);  // what a tied head has added to it stays
}

// Rows of whole buffers, `from_row(i)` to `to_row(i)`.
template <class From, class To>
void copy_rows(const CpuRun& r, ValueId from, ValueId to, int64_t count, From from_row, To to_row) {
  const int64_t bytes = r.m.width(from) * bytes_of(r.type());
  const auto* source = static_cast<const char*>(r.m.data(from));
  auto* target = static_cast<char*>(r.m.data(to));
  at::parallel_for(0, count, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      std::memcpy(target + to_row(i) * bytes, source + from_row(i) * bytes, static_cast<size_t>(bytes));
  });
}

void gather(const CpuRun& r) {
  const int64_t* positions = r.tensors().loss_positions.const_data_ptr<int64_t>();
  copy_rows(
      r, r.in(0), r.out(0), r.m.targets, [&](int64_t i) { return positions[i]; },
      [](int64_t i) { return i; });
}

void scatter(const CpuRun& r) {
  const int64_t* positions = r.tensors().loss_positions.const_data_ptr<int64_t>();
  FORGE_CHECK(!r.op.attributes.accumulate, "supervised rows of a value that has another gradient");
  r.m.tensor(r.out(0)).zero_();
  copy_rows(
      r, r.in(0), r.out(0), r.m.targets, [](int64_t i) { return i; },
      [&](int64_t i) { return positions[i]; });
}

// The first output lies in the place of the second input (add) or of the first (add_gradient).
void add(const CpuRun& r) {
  at::Tensor sum = r.m.tensor(r.out(0));
  sum.add_(r.m.tensor(r.op.kind == OpKind::add ? r.in(0) : r.in(1)));
}

// ---- norm ----

void norm(const CpuRun& r) {
  const bool adds = r.op.kind == OpKind::add_norm;
  const ValueId x = r.in(adds ? 1 : 0), y = r.out(adds ? 1 : 0), inverse = r.out(adds ? 2 : 1);
  const int64_t rows = r.m.rows(x), width = r.op.attributes.head_dim, bytes = width * bytes_of(r.type());
  RmsNormForward args{
      .type = r.type(), .rows = rows, .width = width, .x = r.m.data(x), .x_stride = r.m.stride(x)};
  if (adds) {
    args.residual = r.m.data(r.in(0)), args.residual_stride = r.m.stride(r.in(0));
    args.h = r.m.data(r.out(0)), args.h_stride = r.m.stride(r.out(0));
  }
  args.weight = r.module().vector->data_ptr();
  args.weight_offset = static_cast<float>(r.op.attributes.weight_offset);
  args.eps = static_cast<float>(r.op.attributes.eps);
  args.y = r.m.data(y), args.y_stride = r.m.stride(y);
  args.inverse = r.m.numbers(inverse);
  // Each head by itself: one has the width of the whole row but for norms of q and k.
  for (int64_t head = 0; head < r.m.width(x) / width; ++head) {
    rms_norm_forward_cpu(args);
    args.x = static_cast<const char*>(args.x) + bytes;
    args.y = static_cast<char*>(args.y) + bytes;
    args.inverse += rows;
  }
}

void norm_backward(const CpuRun& r) {
  const Trainable* trained = r.module().weight;
  const int64_t rows = r.m.rows(r.in(0)), width = r.op.attributes.head_dim,
                bytes = width * bytes_of(r.type());
  RmsNormBackward args{.type = r.type(),
                       .rows = rows,
                       .width = width,
                       .d_y = r.m.data(r.in(0)),
                       .d_y_stride = r.m.stride(r.in(0)),
                       .h = r.m.data(r.in(1)),
                       .h_stride = r.m.stride(r.in(1)),
                       .weight = r.module().vector->data_ptr(),
                       .weight_offset = static_cast<float>(r.op.attributes.weight_offset),
                       .inverse = r.m.numbers(r.in(2)),
                       .d_h = r.m.data(r.out(0)),
                       .d_h_stride = r.m.stride(r.out(0)),
                       .accumulate = r.op.attributes.accumulate,
                       .d_weight = trained ? trained->grad.data_ptr<float>() : nullptr};
  for (int64_t head = 0; head < r.m.width(r.in(0)) / width; ++head) {
    rms_norm_backward_cpu(args);
    args.d_y = static_cast<const char*>(args.d_y) + bytes;
    args.h = static_cast<const char*>(args.h) + bytes;
    args.d_h = static_cast<char*>(args.d_h) + bytes;
    args.inverse += rows;
  }
}

// ---- attention ----

// q and k one behind the other in one row are turned at once.
void rope(const CpuRun& r) {
  const Attributes& a = r.op.attributes;
  Rope args{.type = r.type(),
            .backward = r.op.kind == OpKind::rope_backward,
            .tokens = r.m.tokens,
            .head_dim = a.head_dim,
            .rotary_dim = 2 * r.batch.cosine.size(1),
            .cosine = r.batch.cosine.const_data_ptr<float>(),
            .sine = r.batch.sine.const_data_ptr<float>()};
  const auto turn = [&](ValueId x, int64_t heads, int64_t kv_heads) {
    args.heads = heads, args.kv_heads = kv_heads;
    args.qkv = r.m.data(x), args.stride = r.m.stride(x);
    rope_cpu(args);
  };
  const Value &q = r.m.graph.value(r.out(0)), &k = r.m.graph.value(r.out(1));
  if (q.buffer == k.buffer && q.column + q.width == k.column) return turn(r.out(0), a.heads, a.kv_heads);
  turn(r.out(0), a.heads, 0);
  turn(r.out(1), a.kv_heads, 0);
}

// What forward and backward of attention read.
template <class Args>
Args attention_args(const CpuRun& r, ValueId out, ValueId lse) {
  const Attributes& a = r.op.attributes;
  const std::vector<int32_t>& cu_seqlens = r.tensors().cu_seqlens;
  Args args{.shape = {.type = r.type(),
                      .sequences = static_cast<int64_t>(cu_seqlens.size()) - 1,
                      .cu_seqlens = cu_seqlens.data(),
                      .heads = a.heads,
                      .kv_heads = a.kv_heads,
                      .head_dim = a.head_dim,
                      .scale = static_cast<float>(a.scale),
                      .window = a.window,
                      .softcap = static_cast<float>(a.softcap)}};
  args.q = r.m.data(r.in(0)), args.q_stride = r.m.stride(r.in(0));
  args.k = r.m.data(r.in(1)), args.k_stride = r.m.stride(r.in(1));
  args.v = r.m.data(r.in(2)), args.v_stride = r.m.stride(r.in(2));
  args.out = r.m.data(out), args.out_stride = r.m.stride(out);
  args.lse = r.m.numbers(lse);
  args.workspace = r.workspace;
  return args;
}

void store_in_cache(const CpuRun& r) {
  const CachePlaces& places = *r.batch.cache;
  CacheStore args{places.shape, r.m.tokens, places.sequences.data(), places.positions.data()};
  args.k = r.m.data(r.in(1)), args.k_stride = r.m.stride(r.in(1));
  args.v = r.m.data(r.in(2)), args.v_stride = r.m.stride(r.in(2));
  args.keys = places.cache->keys(r.op.layer), args.values = places.cache->values(r.op.layer);
  cache_store_cpu(args);
}

void cached_attention(const CpuRun& r) {
  const CachePlaces& places = *r.batch.cache;
  const Attributes& a = r.op.attributes;
  CachedAttention args{places.shape, static_cast<int64_t>(places.lengths.size()), a.heads, a.window};
  args.scale = static_cast<float>(a.scale), args.softcap = static_cast<float>(a.softcap);
  args.lengths = places.lengths.data();
  args.q = r.m.data(r.in(0)), args.q_stride = r.m.stride(r.in(0));
  args.keys = places.cache->keys(r.op.layer), args.values = places.cache->values(r.op.layer);
  args.out = r.m.data(r.out(0)), args.out_stride = r.m.stride(r.out(0));
  args.workspace = r.workspace;  // that of attention over blocks is larger
  cached_attention_cpu(args);
}

void attention(const CpuRun& r) {
  if (r.batch.cache) {
    store_in_cache(r);
    if (!r.batch.cache->begins) return cached_attention(r);
  }
  attention_forward_cpu(attention_args<AttentionForward>(r, r.out(0), r.out(1)));
}

void attention_backward(const CpuRun& r) {
  auto args = attention_args<AttentionBackward>(r, r.in(3), r.in(4));
  args.d_out = r.m.data(r.in(5)), args.d_out_stride = r.m.stride(r.in(5));
  args.d_q = r.m.data(r.out(0)), args.d_q_stride = r.m.stride(r.out(0));
  args.d_k = r.m.data(r.out(1)), args.d_k_stride = r.m.stride(r.out(1));
  args.d_v = r.m.data(r.out(2)), args.d_v_stride = r.m.stride(r.out(2));
  attention_backward_cpu(args);
}

// ---- gated activation ----

template <class Args>
Args gate_args(const CpuRun& r, ValueId gate, ValueId up) {
  Args args{.type = r.type()};
  args.function = function_of(r.op.attributes.gate);
  args.rows = r.m.rows(gate), args.width = r.m.width(gate);
  args.gate = r.m.data(gate), args.gate_stride = r.m.stride(gate);
  args.up = r.m.data(up), args.up_stride = r.m.stride(up);
  return args;
}

void glu(const CpuRun& r) {
  auto args = gate_args<SwigluForward>(r, r.in(0), r.in(1));
  args.y = r.m.data(r.out(0)), args.y_stride = r.m.stride(r.out(0));
  swiglu_forward_cpu(args);
}

void glu_backward(const CpuRun& r) {
  auto args = gate_args<SwigluBackward>(r, r.in(1), r.in(2));
  args.d_y = r.m.data(r.in(0)), args.d_y_stride = r.m.stride(r.in(0));
  swiglu_backward_cpu(args);
}

}  // namespace

void row_product(at::Tensor y, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                 std::vector<char>& scratch) {
  RowProduct args{element_of(x.scalar_type()), element_of(y.scalar_type()), x.size(0), x.size(1),
                  weight.size(0)};
  args.x = x.data_ptr(), args.x_stride = x.stride(0);
  args.w = weight.data_ptr();
  args.bias = bias.defined() ? bias.data_ptr() : nullptr;
  args.y = y.data_ptr(), args.y_stride = y.stride(0);
  const auto bytes = static_cast<size_t>(row_product_cpu_workspace(args));
  if (scratch.size() < bytes) scratch.resize(bytes);
  args.workspace = scratch.data();
  row_product_cpu(args);
}

void run_cpu_op(const StepMemory& memory, size_t index, const std::vector<BoundModule>& modules,
                const StepBatch& batch) {
  const Op& op = memory.graph.ops[index];
  const CpuRun r{memory, op, memory.workspace(index), modules, batch};
  switch (op.kind) {
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
    case OpKind::head:
    case OpKind::evaluate:
      break;
    case OpKind::scatter:
      return scatter(r);
    case OpKind::add_gradient:
      return add(r);
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
  }
  FORGE_CHECK(false, name_of(op.kind) << " is not an op of a layer");
}

}  // namespace forge
