#include "kernels/experts/experts.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "core/lib/base/error.h"

namespace forge {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Returns the positions of each token's rows, [tokens · per_token].
at::Tensor inverse_of(const at::Tensor& order) {
  at::Tensor inverse = at::empty_like(order);
  inverse.index_copy_(0, order, at::arange(order.size(0), order.options()));
  return inverse;
}

// Returns the rows in the tokens' order, [tokens, per_token, width].
at::Tensor by_token(const at::Tensor& rows, const at::Tensor& order, int64_t per_token) {
  return rows.index_select(0, inverse_of(order)).view({-1, per_token, rows.size(1)});
}

// LibTorch's gradient of index_select adds row by row; a permutation's is the inverse permutation.
struct Dispatch : torch::autograd::Function<Dispatch> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& order) {
    context->save_for_backward({order});
    context->saved_data["tokens"] = x.size(0);
    return x.index_select(0, order.div(order.size(0) / x.size(0), "floor"));
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const at::Tensor order = context->get_saved_variables()[0];
    const int64_t per_token = order.size(0) / context->saved_data["tokens"].toInt();
    return {by_token(grads[0], order, per_token).sum(1), at::Tensor()};
  }
};

struct Combine : torch::autograd::Function<Combine> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows, const at::Tensor& order,
                            const at::Tensor& weights) {
    context->save_for_backward({rows, order, weights});
    const at::Tensor each = by_token(rows, order, weights.size(1));
    return at::bmm(weights.to(rows.scalar_type()).unsqueeze(1), each).squeeze(1);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &rows = saved[0], &order = saved[1], &weights = saved[2], &dy = grads[0];
    const at::Tensor each = by_token(rows, order, weights.size(1));
    const at::Tensor d_weights = at::bmm(each, dy.unsqueeze(2)).squeeze(2).to(weights.scalar_type());
    const at::Tensor d_each = weights.to(rows.scalar_type()).unsqueeze(2) * dy.unsqueeze(1);
    return {d_each.flatten(0, 1).index_select(0, order), at::Tensor(), d_weights};
  }
};

using Scores = RouteRule::Scores;

at::Tensor scores_of(const at::Tensor& logits, Scores scores) {
  if (scores == Scores::chosen_softmax) return logits;
  return scores == Scores::sigmoid ? at::sigmoid(logits.to(at::kFloat)) : at::softmax(logits.to(at::kFloat), 1);
}

// Sets the scores of experts in worse groups to −∞, so that they cannot be chosen.
at::Tensor within_groups(const at::Tensor& scores, const RouteRule& rule) {
  const at::Tensor groups = scores.unflatten(1, {rule.groups, -1});  // [tokens, groups, experts of a group]
  const at::Tensor best = std::get<0>(groups.topk(rule.group_best, 2)).sum(2);
  const at::Tensor out = at::ones_like(best, at::kBool).scatter(1, std::get<1>(best.topk(rule.groups_per_token, 1)), false);
  return groups.masked_fill(out.unsqueeze(2), -std::numeric_limits<float>::infinity()).flatten(1);
}

at::Tensor chosen_by(const at::Tensor& scores, const RouteRule& rule, const at::Tensor& correction) {
  at::Tensor best = correction.defined() ? scores.detach() + correction : scores.detach();
  if (rule.groups_per_token < rule.groups) best = within_groups(best, rule);
  return std::get<1>(best.topk(rule.per_token, 1));
}

}  // namespace

Routed route(const at::Tensor& logits, const RouteRule& rule, const at::Tensor& correction) {
  const at::Tensor scores = scores_of(logits, rule.scores), chosen = chosen_by(scores, rule, correction);
  at::Tensor weights = scores.gather(1, chosen);
  if (rule.scores == Scores::chosen_softmax) weights = at::softmax(weights, 1).to(at::kFloat);
  if (rule.normalise) weights = weights / (weights.sum(1, true) + rule.sum_eps);
  if (rule.scale != 1) weights = weights * rule.scale;
  const at::Tensor flat = chosen.flatten();
  const at::Tensor counts = at::bincount(flat, {}, logits.size(1));
  Routed routed{weights, std::get<1>(flat.sort(true, 0, false)), counts.cumsum(0).cpu(), {}};
  if (rule.balance) routed.probability = (rule.scores == Scores::softmax ? scores : at::softmax(logits.to(at::kFloat), 1)).sum(0);
  return routed;
}

at::Tensor dispatch(const at::Tensor& x, const at::Tensor& order) { return Dispatch::apply(x, order); }

at::Tensor combine(const at::Tensor& rows, const at::Tensor& order, const at::Tensor& weights) {
  return Combine::apply(rows, order, weights);
}

}  // namespace forge
