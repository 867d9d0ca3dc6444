#pragma once
// Decoding: the model's forward list with a cache of keys and values. One sequence.
#include <ATen/core/Tensor.h>

#include <vector>

#include "core/graph/graph.h"
#include "core/model/bound.h"
#include "core/model/model.h"

namespace forge {

class Decoder {
 public:
  // For a sequence of at most `capacity` tokens. `model` must outlive it.
  Decoder(const Model& model, int64_t capacity);

  // Runs `token_ids` after those so far; → logits of the last one, fp32 [vocab].
  at::Tensor next_logits(const std::vector<int32_t>& token_ids);

 private:
  const Model& model_;
  Graph list_;
  std::vector<BoundModule> modules_;
  std::vector<at::Tensor> keys_, values_;  // by layer, [capacity, kv_heads, head_dim]
  int64_t length_ = 0;
};

}  // namespace forge
