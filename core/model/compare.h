#pragma once
// How far the logits of two models are apart along the same texts.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/model/decoder.h"

namespace forge {

// The decoder's logits behind every token of every text, fp32 [tokens of all texts, vocab], text after text. Texts go along
// together, a token each at a time.
at::Tensor logits_along(Decoder& decoder, const std::vector<std::vector<int32_t>>& texts);

struct LogitDifference {
  int64_t positions = 0;
  double largest = 0;          // |a - b|, over all logits
  double scale = 0;            // max |a|
  double divergence = 0;       // mean KL(a ‖ b) of the distributions, in nats
  double same_likeliest = 0;   // share of the positions where both prefer the same token
};

// Of two results of logits_along for the same texts.
LogitDifference logit_difference(const at::Tensor& a, const at::Tensor& b);

}  // namespace forge
