#include "core/model/decoder.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <numeric>

#include "core/families/step.h"
#include "core/model/forward.h"
#include "kernels/lm_head/lm_head.h"

namespace forge {
namespace {

// The tokens after the first `past`, of which the head looks at the last.
Batch batch_of(const std::vector<int32_t>& token_ids, int64_t past) {
  Batch batch;
  batch.token_ids = token_ids;
  batch.positions.resize(token_ids.size());
  std::iota(batch.positions.begin(), batch.positions.end(), static_cast<int32_t>(past));
  batch.cu_seqlens = {0, static_cast<int32_t>(token_ids.size())};
  batch.targets.assign(token_ids.size(), 0);
  batch.loss_weights.assign(token_ids.size(), 0);
  batch.loss_weights.back() = 1;
  batch.example_ids = {0};
  return batch;
}

}  // namespace

Decoder::Decoder(const Model& model, int64_t capacity) : model_(model), list_(forward_list({model.spec})) {
  modules_ = bind_modules(list_.modules, model, nullptr);
  const auto options = at::TensorOptions().dtype(model.type).device(model.device);
  for (int64_t layer = 0; layer < model.spec.num_layers; ++layer)
    for (auto* cache : {&keys_, &values_})
      cache->push_back(at::empty({capacity, model.spec.num_kv_heads, model.spec.head_dim}, options));
}

at::Tensor Decoder::next_logits(const std::vector<int32_t>& token_ids) {
  c10::NoGradGuard no_grad;
  const auto fresh = static_cast<int64_t>(token_ids.size());
  const BatchTensors batch =
      to_tensors(batch_of(token_ids, length_), model_.spec, model_.type, model_.device);
  const auto attend = [&](const Op& op, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    at::Tensor &keys = keys_[static_cast<size_t>(op.layer)], &values = values_[static_cast<size_t>(op.layer)];
    keys.narrow(0, length_, fresh).copy_(k);
    values.narrow(0, length_, fresh).copy_(v);
    const int64_t all = length_ + fresh;
    return cached_attention(q, keys.narrow(0, 0, all), values.narrow(0, 0, all), rule_of(op.attributes));
  };
  ForwardRun run{list_, model_, modules_, batch, attend};
  const size_t head = list_.ops.size() - 1;
  const ValueId rows = list_.ops[head].in[0];
  run_forward(run, 0, head, rows);
  length_ += fresh;
  at::Tensor logits =
      at::mm(run.values[static_cast<size_t>(rows)], head_weight(model_).t()).squeeze(0).to(at::kFloat);
  cap_logits(logits, list_.ops[head].attributes.softcap);
  return logits;
}

}  // namespace forge
