#include "core/train/network.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "core/plan/memory/memory.h"
#include "core/train/likelihood.h"
#include "core/train/policy_head.h"
#include "core/train/score_head.h"
#include "core/train/sequence_head.h"
#include "kernels/device/device_of.h"

namespace forge {
namespace {
bool runs_fused(const HeadRows& head) { return head.op && head.op->attributes.fused_head; }
}  // namespace

Network::Network(Model& model, TrainableSet& trainables, StepProvider& provider, const Job& job)
    : model_(model), provider_(provider), job_(job) {
  for (Trainable& item : trainables.items())
    if (item.leaf.is_same(model.head)) head_ = &item;
  for (WholeWeight& weight : trainables.wholes())
    if (weight.whole.leaf.is_same(model.head)) head_ = &weight.whole;
}

BatchLoss Network::forward_backward(const BatchTensors& batch, const StepScale& scale,
                                    const std::vector<double>& reference) {
  BatchLoss loss;
  // The head's rows are freed before the backward pass begins.
  at::Tensor d_rows = head_backward(provider_.forward(batch, true), batch, scale, reference, &loss);
  if (model_.spec.router_loss > 0) balance_experts(batch, scale, loss);
  provider_.backward(std::move(d_rows), batch);
  return loss;
}

// Of the micro-batch by its share of the step's tokens; transformers' models add it to their loss.
void Network::balance_experts(const BatchTensors& batch, const StepScale& scale, BatchLoss& loss) {
  const auto tokens = static_cast<double>(batch.tokens);
  const double weight = model_.spec.router_loss * tokens / scale.tokens;
  const double balance = provider_.balance(weight * scale.loss_scale);
  loss.loss += scale.divisor * weight * balance;
  loss.metrics["router_loss"] = {tokens * balance, tokens};
}

at::Tensor Network::head_backward(const HeadRows& head, const BatchTensors& batch, const StepScale& scale,
                                  const std::vector<double>& reference, BatchLoss* loss) {
  const Moment begin = now();
  const bool by_token = objective_of(job_.objective.type).coupling == Coupling::token;
  const at::Tensor d_rows =
      by_token ? token_head_backward(head, batch, scale, loss) : answer_head_backward(head, batch, scale, reference, loss);
  tell_head(head, batch, begin);
  return d_rows;
}

at::Tensor Network::answer_head_backward(const HeadRows& head, const BatchTensors& batch, const StepScale& scale,
                                         const std::vector<double>& reference, BatchLoss* loss) {
  const at::Tensor gradient = head_ ? head_->grad : at::Tensor();
  if (model_.spec.score_head)
    return score_head_backward({head, score_weight(), gradient}, batch, job_.objective, scale, loss);
  return sequence_head_backward({head, head_weight(model_).detach(), gradient, model_.spec.logit_softcap}, batch, job_.objective,
                                scale, reference, loss);
}

// Trained weights are read from their exact copies.
at::Tensor Network::score_weight() const { return (head_ ? head_->master : model_.head.detach()).to(at::kFloat); }

PolicyRows Network::policy_forward_backward(const BatchTensors& batch, const PolicyTask& task) {
  PolicyRows rows;
  at::Tensor d_rows;
  {
    const HeadRows head = provider_.forward(batch, true);
    d_rows = policy_head_backward(
        {head, head_weight(model_).detach(), head_ ? head_->grad : at::Tensor(), model_.spec.logit_softcap}, batch, task, rows);
  }
  provider_.backward(std::move(d_rows), batch);
  return rows;
}

PolicyRows Network::policy_rows(const BatchTensors& batch, double temperature) {
  c10::NoGradGuard no_grad;
  const HeadRows head = provider_.forward(batch, false);
  const TokenOutputs outputs = head_forward(head.rows, head_weight(model_), batch.loss_targets,
                                            {.logp = true, .entropy = true, .temperature = temperature},
                                            {.scratch = head.scratch, .softcap = model_.spec.logit_softcap});
  return {host_doubles(outputs.logp), host_doubles(outputs.entropy)};
}

std::vector<double> Network::values(const BatchTensors& batch) {
  c10::NoGradGuard no_grad;
  return host_doubles(scores_of(provider_.forward(batch, false).rows, score_weight()));
}

void Network::value_forward_backward(const BatchTensors& batch, double loss_scale,
                                     const std::function<std::vector<double>(const std::vector<double>&)>& ask) {
  at::Tensor d_rows =
      score_rows_backward({provider_.forward(batch, true), score_weight(), head_ ? head_->grad : at::Tensor()}, loss_scale, ask);
  provider_.backward(std::move(d_rows), batch);
}

Moment Network::now() const { return watch_ ? device_of(model_.device).mark() : Moment{}; }

FusedHead Network::fused_head() const { return {head_weight(model_).detach(), model_.spec.logit_softcap}; }

void Network::tell_head(const HeadRows& head, const BatchTensors& batch, Moment begin) const {
  if (watch_)
    watch_({"head", head.list, head.op, batch.tokens, batch.loss_positions.size(0), begin, now()});
}

const GradientVerdict& Network::measure(Optimizer& optimizer, double unscale, double max_norm) {
  const Moment begin = now();
  const UpdateOps ops = provider_.update_ops();
  if (!ops.workspace && norm_workspace_.bytes() == 0)
    norm_workspace_ = DeviceBlock(optimizer.device(), optimizer.norm_workspace(), "gradient norm");
  const GradientVerdict& verdict =
      optimizer.measure(unscale, max_norm, ops.workspace ? ops.workspace : norm_workspace_.as<void>());
  tell("gradient norm", ops, ops.norm, begin);
  return verdict;
}

void Network::update(Optimizer& optimizer, double learning_rate, int64_t updates) {
  const Moment begin = now();
  optimizer.update(learning_rate, updates);
  const UpdateOps ops = provider_.update_ops();
  tell("update", ops, ops.update, begin);
}

void Network::tell(const char* name, const UpdateOps& ops, const Op* op, Moment begin) const {
  if (watch_) watch_({name, ops.list, op, 0, 0, begin, now()});
}

void Network::watch(const StepWatch& watch) {
  watch_ = watch;
  provider_.watch(watch);
}

at::Tensor Network::token_head_backward(const HeadRows& head, const BatchTensors& batch, const StepScale& scale,
                                        BatchLoss* loss) {
  const auto cotangents = [&](int64_t begin, const TokenOutputs& outputs) {
    at::Tensor weights = batch.loss_weights.narrow(0, begin, outputs.logsumexp.size(0));
    LikelihoodGrads result = likelihood_grads(job_.objective, outputs, weights, scale.divisor, scale.loss_scale);
    loss->loss += result.loss_sum;
    return result.grads;
  };
  if (runs_fused(head)) {
    loss->later = fused_head_backward(fused_head(), head, batch.host_weights, job_.objective, scale.loss_scale / scale.divisor,
                                      head_ ? head_->grad : at::Tensor(), head_captures_);
    return head.d_rows;
  }
  return head_forward_backward(head.rows, head_weight(model_).detach(), batch.loss_targets,
                                                  likelihood_needs(job_.objective), cotangents,
                                                  {.scratch = head.scratch, .d_hidden = head.d_rows, .softcap = model_.spec.logit_softcap},
                                                  head_ ? head_->grad : at::Tensor());
}

at::Tensor Network::token_logps(const BatchTensors& batch) {
  c10::NoGradGuard no_grad;
  const HeadRows head = provider_.forward(batch, false);
  if (runs_fused(head)) return fused_head_logp(fused_head(), head);
  return head_forward(head.rows, head_weight(model_), batch.loss_targets, {.logp = true},
                                 {.scratch = head.scratch, .softcap = model_.spec.logit_softcap})
      .logp;
}

std::vector<SequenceSums> Network::answers(const BatchTensors& batch) {
  if (!model_.spec.score_head) return sequence_sums(token_logps(batch), batch);
  return score_sums(values(batch), batch);
}

std::vector<ExampleLoss> Network::evaluate(const BatchTensors& batch) {
  std::vector<ExampleLoss> losses;
  for (const SequenceSums& sums : answers(batch)) losses.push_back({sums.tokens, -sums.logp});
  return losses;
}

}  // namespace forge
