#pragma once
// Mixture of experts (Shazeer et al., 2017; Fedus et al., Switch Transformer, 2021), with the rules
// of transformers' routers. Rows of experts are the tokens' rows, `per_token` copies of each,
// sorted by expert: the rows of an expert are consecutive.
//
//   Routed r = route(logits, rule);
//   at::Tensor rows = dispatch(x, r.order);      // the expert with number e takes rows [ends[e − 1], ends[e])
//   at::Tensor y = combine(of_experts, r.order, r.weights);
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/experts/experts_args.h"

namespace forge {

struct Routed {
  at::Tensor weights;      // fp32 [tokens, per_token], the largest first; differentiable in the logits
  at::Tensor order;        // int64 [tokens · per_token]: row i is that of token order[i] / per_token
  at::Tensor ends;         // int64 [experts], on the host
  at::Tensor probability;  // fp32 [experts]: the sum over the tokens, differentiable; undefined without `balance`
};

// Chooses the experts of each token. logits [tokens, experts]. `correction` [experts] is added to
// the scores that experts are chosen by; undefined: none.
Routed route(const at::Tensor& logits, const RouteRule& rule, const at::Tensor& correction = {});

// x [tokens, width] → [tokens · per_token, width]. Differentiable.
at::Tensor dispatch(const at::Tensor& x, const at::Tensor& order);

// rows [tokens · per_token, width], weights [tokens, per_token] → [tokens, width]: the weighted
// sums. Differentiable in both.
at::Tensor combine(const at::Tensor& rows, const at::Tensor& order, const at::Tensor& weights);

}  // namespace forge
