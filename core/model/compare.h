#pragma once
// Compares the logits of two models along the same texts.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/model/decoder.h"

namespace forge {

// Returns the decoder's logits after every token of every text, fp32 [tokens of all texts, vocab],
// text after text. The texts advance together, one token each at a time.
at::Tensor logits_along(Decoder& decoder, const std::vector<std::vector<int32_t>>& texts);

struct LogitDifference {
  int64_t positions = 0;
  double largest = 0;          // |a - b|, over all logits
  double scale = 0;            // max |a|
  double divergence = 0;       // mean KL(a ‖ b) of the distributions, in nats
  double same_likeliest = 0;   // share of the positions where both prefer the same token
};

// Compares two results of logits_along for the same texts.
LogitDifference logit_difference(const at::Tensor& a, const at::Tensor& b);

}  // namespace forge
