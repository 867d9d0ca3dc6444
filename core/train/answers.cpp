#include "core/train/answers.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "core/lib/base/error.h"

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

}  // namespace

std::vector<SequenceSums> answers_of(const ModelSpec& model, const at::Tensor& logp, const BatchTensors& batch) {
  return model.score_head ? scored(host_doubles(logp), batch) : sums_of_tokens(logp, batch);
}

SequenceLoss answers_loss(std::vector<SequenceSums> answers, const ObjectiveConfig& objective,
                          const std::vector<double>& reference, const StepScale& scale) {
  FORGE_CHECK(reference.empty() != objective_of(objective.type()).has_reference,
              reference.size() << " sums of a reference for " << answers.size() << " answers");
  for (size_t i = 0; i < reference.size(); ++i) answers.at(i).reference = reference[i];
  return sequence_loss(objective, answers, scale);
}

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

}  // namespace forge
