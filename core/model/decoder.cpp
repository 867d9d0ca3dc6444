#include "core/model/decoder.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <numeric>

#include "core/model/rope_tables.h"
#include "kernels/attention/attention.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope/rope.h"
#include "kernels/swiglu/swiglu.h"

namespace forge {
namespace {

struct Qkv {
  at::Tensor q, k, v;  // [tokens, heads or kv_heads, head_dim]
};

Qkv project(const Model& model, const LayerWeights& w, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
            const RowKeys* rows) {
  int64_t tokens = x.size(0), d = model.spec.head_dim;
  at::Tensor q = linear(w.q_proj, x, rows).view({tokens, model.spec.num_heads, d});
  at::Tensor k = linear(w.k_proj, x, rows).view({tokens, model.spec.num_kv_heads, d});
  at::Tensor v = linear(w.v_proj, x, rows).view({tokens, model.spec.num_kv_heads, d});
  return {rope(q, cos, sin), rope(k, cos, sin), v};
}

double attention_scale(const Model& model) { return 1 / std::sqrt(static_cast<double>(model.spec.head_dim)); }

at::Tensor mlp(const LayerWeights& w, const at::Tensor& x, const RowKeys* rows) {
  return linear(w.down_proj, swiglu(linear(w.gate_proj, x, rows), linear(w.up_proj, x, rows)), rows);
}

}  // namespace

at::Tensor attention_half(const Model& model, int64_t layer, const at::Tensor& hidden, const BatchTensors& batch) {
  const LayerWeights& w = model.layers[static_cast<size_t>(layer)];
  const RowKeys* rows = batch.dropout_rows();
  at::Tensor x = rms_norm(hidden, w.input_norm, model.spec.rms_norm_eps);
  Qkv heads = project(model, w, x, batch.cos, batch.sin, rows);
  at::Tensor mixed = packed_attention(heads.q, heads.k, heads.v, batch.cu_seqlens, attention_scale(model));
  return hidden + linear(w.o_proj, mixed, rows);
}

at::Tensor mlp_half(const Model& model, int64_t layer, const at::Tensor& hidden, const BatchTensors& batch) {
  const LayerWeights& w = model.layers[static_cast<size_t>(layer)];
  at::Tensor x = rms_norm(hidden, w.post_attention_norm, model.spec.rms_norm_eps);
  return hidden + mlp(w, x, batch.dropout_rows());
}

KvCache new_cache(const Model& model, int64_t capacity) {
  KvCache cache;
  auto options = at::TensorOptions().dtype(model.type).device(model.device);
  for (int64_t layer = 0; layer < model.spec.num_layers; ++layer) {
    cache.keys.push_back(at::empty({capacity, model.spec.num_kv_heads, model.spec.head_dim}, options));
    cache.values.push_back(at::empty({capacity, model.spec.num_kv_heads, model.spec.head_dim}, options));
  }
  return cache;
}

at::Tensor next_logits(const Model& model, const std::vector<int32_t>& token_ids, KvCache& cache) {
  c10::NoGradGuard no_grad;
  int64_t fresh = static_cast<int64_t>(token_ids.size());
  Batch batch;
  batch.token_ids = token_ids;
  batch.positions.resize(token_ids.size());
  std::iota(batch.positions.begin(), batch.positions.end(), static_cast<int32_t>(cache.length));
  batch.cu_seqlens = {0, static_cast<int32_t>(fresh)};
  batch.targets.assign(token_ids.size(), -1);
  batch.loss_weights.assign(token_ids.size(), 0);
  batch.example_ids = {0};
  BatchTensors tensors = to_tensors(batch, model.spec, model.type, model.device);
  at::Tensor hidden = embed(model, tensors.token_ids);
  for (int64_t layer = 0; layer < model.spec.num_layers; ++layer) {
    const LayerWeights& w = model.layers[static_cast<size_t>(layer)];
    at::Tensor x = rms_norm(hidden, w.input_norm, model.spec.rms_norm_eps);
    Qkv heads = project(model, w, x, tensors.cos, tensors.sin, nullptr);
    cache.keys[layer].narrow(0, cache.length, fresh).copy_(heads.k);
    cache.values[layer].narrow(0, cache.length, fresh).copy_(heads.v);
    at::Tensor mixed = cached_attention(heads.q, cache.keys[layer].narrow(0, 0, cache.length + fresh),
                                        cache.values[layer].narrow(0, 0, cache.length + fresh), attention_scale(model));
    hidden = hidden + linear(w.o_proj, mixed, nullptr);
    hidden = hidden + mlp(w, rms_norm(hidden, w.post_attention_norm, model.spec.rms_norm_eps), nullptr);
  }
  cache.length += fresh;
  at::Tensor last = rms_norm(hidden.narrow(0, fresh - 1, 1), model.final_norm, model.spec.rms_norm_eps);
  return at::mm(last, head_weight(model).t()).squeeze(0).to(at::kFloat);
}

}  // namespace forge
