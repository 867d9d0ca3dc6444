#include "core/train/network.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "core/lib/base/error.h"
#include "kernels/device/device_of.h"

namespace forge {
namespace {

bool is_answer(const BatchTensors& batch, size_t position) { return batch.host_weights[position] > 0; }

std::vector<SequenceSums> sums_of_tokens(const at::Tensor& logp, const BatchTensors& batch) {
  std::vector<SequenceSums> sums(batch.cu_seqlens.size() - 1);
  if (!logp.defined()) return sums;
  const at::Tensor values = logp.cpu().contiguous(), positions = batch.loss_positions.cpu();
  for (size_t i = 0; i < batch.judgements.size(); ++i) {
    sums[i].desirable = batch.judgements[i].desirable;
    sums[i].margin = batch.judgements[i].margin;
  }
  size_t sequence = 0;
  for (int64_t i = 0; i < values.size(0); ++i) {
    while (positions.const_data_ptr<int64_t>()[i] >= batch.cu_seqlens[sequence + 1]) ++sequence;
    const bool answer = is_answer(batch, static_cast<size_t>(i));
    (answer ? sums[sequence].logp : sums[sequence].other_logp) += values.const_data_ptr<float>()[i];
    ++(answer ? sums[sequence].tokens : sums[sequence].other_tokens);
  }
  return sums;
}

std::vector<SequenceSums> scored(const std::vector<double>& scores, const BatchTensors& batch) {
  std::vector<SequenceSums> sums(scores.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i].logp = scores[i];
    sums[i].tokens = 1;
    if (!batch.judgements.empty()) sums[i].margin = batch.judgements[i].margin;
  }
  return sums;
}

// Returns each sequence's cotangent at each of its supervised positions.
std::vector<double> by_position(const SequenceLoss& loss, const std::vector<SequenceSums>& answers, const BatchTensors& batch) {
  std::vector<double> values;
  for (size_t i = 0; i < answers.size(); ++i)
    for (const size_t end = values.size() + static_cast<size_t>(answers[i].tokens + answers[i].other_tokens); values.size() < end;)
      values.push_back((is_answer(batch, values.size()) ? loss.cotangents : loss.other_cotangents)[i]);
  return values;
}

// Returns the trainable that is this weight of the model, for a tied head the embedding's; null if
// it is frozen.
Trainable* trained_weight(const at::Tensor& weight, TrainableSet& trainables) {
  if (!weight.defined()) return nullptr;
  for (WholeWeight& whole : trainables.wholes())
    if (whole.whole.leaf.is_same(weight)) return &whole.whole;
  for (Trainable& item : trainables.items())
    if (item.leaf.is_same(weight)) return &item;
  return nullptr;
}

// Returns the sums of each sequence from fp32 logp [positions] of its supervised positions, with
// what the data say of it. The reference stays 0. Under a model of scores logp is the score of each
// sequence, as of one token.
std::vector<SequenceSums> answers_of(const ModelSpec& model, const at::Tensor& logp, const BatchTensors& batch) {
  return model.score_head ? scored(host_doubles(logp), batch) : sums_of_tokens(logp, batch);
}

// Returns what the head has to do for the micro-batch's loss / divisor · loss_scale, which is added
// to `loss`. Metrics beside the objective's, over tokens of all answers: entropy (nats),
// token_accuracy (share of tokens that are the likeliest). All arguments must outlive the task.
HeadTask answers_task(const ModelSpec& model, const BatchTensors& batch, const ObjectiveConfig& objective, const StepScale& scale,
                      const std::vector<double>& reference, BatchLoss& loss) {
  HeadTask task{.needs = {.logp = true, .entropy = true, .top1 = true}, .loss_scale = scale.loss_scale};
  task.see = [&](const TokenOutputs& chunk) {
    const auto tokens = static_cast<double>(chunk.logp.size(0));
    add(loss.metrics, {{"entropy", {chunk.entropy.sum(at::kDouble).item<double>(), tokens}},
                       {"token_accuracy", {chunk.top1.sum(at::kDouble).item<double>(), tokens}}});
  };
  task.from_rows = [&](const TokenOutputs& rows) {
    const std::vector<SequenceSums> answers = answers_of(model, rows.logp, batch);
    const SequenceLoss result = answers_loss(answers, objective, reference, scale);
    loss.loss += result.loss;
    for (size_t i = 0; i < reference.size(); ++i)
      loss.reference_gap = std::max(loss.reference_gap, std::abs(answers[i].logp - reference[i]));
    add(loss.metrics, result.metrics);
    return RowCotangents{.logp = model.score_head ? result.cotangents : by_position(result, answers, batch), .entropy = {}};
  };
  return task;
}

}  // namespace

SequenceLoss answers_loss(std::vector<SequenceSums> answers, const ObjectiveConfig& objective,
                          const std::vector<double>& reference, const StepScale& scale) {
  FORGE_CHECK(reference.empty() != objective_of(objective.type()).has_reference,
              reference.size() << " sums of a reference for " << answers.size() << " answers");
  for (size_t i = 0; i < reference.size(); ++i) answers.at(i).reference = reference[i];
  return sequence_loss(objective, answers, scale);
}

Network::Network(Model& model, TrainableSet& trainables, StepProvider& provider, const Job& job)
    : model_(model), provider_(provider), job_(job), head_(model, trained_weight(model.head, trainables), trained_weight(model.head_bias, trainables)) {}

BatchLoss Network::forward_backward(const BatchTensors& batch, const StepScale& scale,
                                    const std::vector<double>& reference) {
  BatchLoss loss;
  at::Tensor d_rows;
  {
    // The head's rows are freed before the backward pass begins.
    const HeadRows rows = provider_.forward(batch, true);
    const Moment begin = now();
    TokenOutputs kept;
    d_rows = objective_of(job_.objective.type()).coupling == Coupling::token
                 ? head_.likelihood_backward(rows, batch, job_.objective.as<LikelihoodConfig>(), scale, loss)
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

}  // namespace forge
