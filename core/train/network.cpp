#include "core/train/network.h"

#include <c10/core/GradMode.h>

#include "core/train/answers.h"
#include "kernels/device/device_of.h"

namespace forge {
namespace {

// Returns the trainable that is the model's head, the embedding's when tied; null if the head is
// frozen.
Trainable* trained_head(const Model& model, TrainableSet& trainables) {
  for (WholeWeight& weight : trainables.wholes())
    if (weight.whole.leaf.is_same(model.head)) return &weight.whole;
  for (Trainable& item : trainables.items())
    if (item.leaf.is_same(model.head)) return &item;
  return nullptr;
}

}  // namespace

Network::Network(Model& model, TrainableSet& trainables, StepProvider& provider, const Job& job)
    : model_(model), provider_(provider), job_(job), head_(model, trained_head(model, trainables)) {}

BatchLoss Network::forward_backward(const BatchTensors& batch, const StepScale& scale,
                                    const std::vector<double>& reference) {
  BatchLoss loss;
  at::Tensor d_rows;
  {
    // The head's rows are freed before the backward pass begins.
    const HeadRows rows = provider_.forward(batch, true);
    const Moment begin = now();
    TokenOutputs kept;
    d_rows = objective_of(job_.objective.type).coupling == Coupling::token
                 ? head_.likelihood_backward(rows, batch, job_.objective, scale, loss)
                 : head_.backward(rows, batch, answers_task(model_.spec, batch, job_.objective, scale, reference, loss), kept);
    tell("head", rows.list, rows.op, begin, batch.tokens, batch.loss_positions.size(0));
  }
  if (model_.spec.router_loss > 0) balance_experts(batch, scale, loss);
  provider_.backward(std::move(d_rows), batch);
  return loss;
}

// Adds the loss that balances experts, weighted by the micro-batch's share of the step's tokens.
// transformers' models add it to their loss.
void Network::balance_experts(const BatchTensors& batch, const StepScale& scale, BatchLoss& loss) {
  const auto tokens = static_cast<double>(batch.tokens);
  const double weight = model_.spec.router_loss * tokens / scale.tokens;
  const double balance = provider_.balance(weight * scale.loss_scale);
  loss.loss += scale.divisor * weight * balance;
  loss.metrics["router_loss"] = {tokens * balance, tokens};
}

TokenOutputs Network::rows_forward_backward(const BatchTensors& batch, const HeadTask& task) {
  TokenOutputs kept;
  at::Tensor d_rows = head_.backward(provider_.forward(batch, true), batch, task, kept);
  provider_.backward(std::move(d_rows), batch);
  return kept;
}

TokenOutputs Network::rows(const BatchTensors& batch, const TokenNeeds& needs) {
  c10::NoGradGuard no_grad;
  return head_.numbers(provider_.forward(batch, false), batch, needs);
}

Moment Network::now() const { return watch_ ? device_of(model_.device).mark() : Moment{}; }

void Network::tell(const char* name, const Graph* list, const Op* op, Moment begin, int64_t tokens,
                   int64_t targets) const {
  if (watch_) watch_({name, list, op, tokens, targets, begin, now()});
}

const GradientVerdict& Network::measure(Optimizer& optimizer, double unscale, double max_norm) {
  const Moment begin = now();
  const UpdateOps ops = provider_.update_ops();
  if (!ops.workspace && norm_workspace_.bytes() == 0)
    norm_workspace_ = DeviceBlock(optimizer.device(), optimizer.norm_workspace(), "gradient norm");
  const GradientVerdict& verdict =
      optimizer.measure(unscale, max_norm, ops.workspace ? ops.workspace : norm_workspace_.as<void>());
  tell("gradient norm", ops.list, ops.norm, begin);
  return verdict;
}

void Network::update(Optimizer& optimizer, double learning_rate, int64_t updates) {
  const Moment begin = now();
  optimizer.update(learning_rate, updates);
  const UpdateOps ops = provider_.update_ops();
  tell("update", ops.list, ops.update, begin);
}

void Network::watch(const StepWatch& watch) {
  watch_ = watch;
  provider_.watch(watch);
}

std::vector<SequenceSums> Network::answers(const BatchTensors& batch) { return answers_of(model_.spec, rows(batch).logp, batch); }

std::vector<ExampleLoss> Network::evaluate(const BatchTensors& batch) {
  std::vector<ExampleLoss> losses;
  for (const SequenceSums& sums : answers(batch)) losses.push_back({sums.tokens, -sums.logp});
  return losses;
}

}  // namespace forge
