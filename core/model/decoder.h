#pragma once
// The Llama decoder in ATen, once: the reference provider trains with it, evaluation and generation run it.
#include <ATen/core/Tensor.h>

#include <vector>

#include "core/model/batch_tensors.h"
#include "core/model/model.h"

namespace forge {

// The two halves of a layer, each with its residual: hidden [tokens, hidden] → [tokens, hidden].
at::Tensor attention_half(const Model& model, int64_t layer, const at::Tensor& hidden, const BatchTensors& batch);
at::Tensor mlp_half(const Model& model, int64_t layer, const at::Tensor& hidden, const BatchTensors& batch);

// Keys and values of the tokens so far, for generation. One sequence.
struct KvCache {
  std::vector<at::Tensor> keys, values;  // per layer, [capacity, kv_heads, head_dim]
  int64_t length = 0;
};
KvCache new_cache(const Model& model, int64_t capacity);

// Runs `token_ids` after what the cache holds and appends them to it; → logits of the last token, fp32 [vocab].
at::Tensor next_logits(const Model& model, const std::vector<int32_t>& token_ids, KvCache& cache);

}  // namespace forge
