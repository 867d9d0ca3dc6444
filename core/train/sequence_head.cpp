#include "core/train/sequence_head.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/plan/memory/memory.h"
#include "kernels/lm_head/lm_head.h"

namespace forge {
namespace {

bool is_answer(const BatchTensors& batch, size_t position) { return batch.host_weights[position] > 0; }

// Each sequence's cotangent at each of its supervised positions. fp32 [positions]
at::Tensor by_position(const SequenceLoss& loss, const std::vector<SequenceSums>& answers, const BatchTensors& batch, double loss_scale,
                       c10::Device device) {
  std::vector<float> values;
  for (size_t i = 0; i < answers.size(); ++i)
    for (const size_t end = values.size() + static_cast<size_t>(answers[i].tokens + answers[i].other_tokens); values.size() < end;)
      values.push_back(static_cast<float>((is_answer(batch, values.size()) ? loss.cotangents : loss.other_cotangents)[i] * loss_scale));
  return at::tensor(values, at::kFloat).to(device);
}

void add_token_metrics(const TokenOutputs& outputs, Metrics& metrics) {
  const auto tokens = static_cast<double>(outputs.logp.size(0));
  add(metrics, {{"entropy", {outputs.entropy.sum(at::kDouble).item<double>(), tokens}},
                {"token_accuracy", {outputs.top1.sum(at::kDouble).item<double>(), tokens}}});
}

}  // namespace

at::Tensor multiply_rows(at::Tensor rows, const at::Tensor& factors) {
  // A few rows at a time: in 16 bits LibTorch widens both factors first.
  for (int64_t begin = 0; begin < rows.size(0); begin += kScaledRows) {
    const int64_t count = std::min(kScaledRows, rows.size(0) - begin);
    rows.narrow(0, begin, count).mul_(factors.narrow(0, begin, count).unsqueeze(1));
  }
  return rows;
}

std::vector<SequenceSums> sequence_sums(const at::Tensor& logp, const BatchTensors& batch) {
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

SequenceLoss answers_loss(std::vector<SequenceSums> answers, const ObjectiveConfig& objective,
                          const std::vector<double>& reference, const StepScale& scale) {
  FORGE_CHECK(reference.empty() != objective_of(objective.type).has_reference,
              reference.size() << " sums of a reference for " << answers.size() << " answers");
  for (size_t i = 0; i < reference.size(); ++i) answers.at(i).reference = reference[i];
  return sequence_loss(objective, answers, scale);
}

at::Tensor sequence_head_backward(const SequenceHead& head, const BatchTensors& batch, const ObjectiveConfig& objective,
                                  const StepScale& scale, const std::vector<double>& reference, BatchLoss* loss) {
  c10::NoGradGuard no_grad;
  const HeadMemory memory{.scratch = head.rows.scratch, .d_hidden = head.rows.d_rows, .softcap = head.softcap};
  const TokenNeeds needs{.logp = true, .entropy = true, .top1 = true};
  at::Tensor logp, d_rows;
  if (head.weight_grad.defined()) {
    const TokenOutputs outputs = head_forward(head.rows.rows, head.weight, batch.loss_targets, needs, memory);
    logp = outputs.logp;
    add_token_metrics(outputs, loss->metrics);
  } else {
    logp = at::empty({head.rows.rows.size(0)}, head.rows.rows.options().dtype(at::kFloat));
    const auto unit = [&](int64_t begin, const TokenOutputs& outputs) {
      logp.narrow(0, begin, outputs.logp.size(0)).copy_(outputs.logp);
      add_token_metrics(outputs, loss->metrics);
      return TokenGrads{.logp = at::ones_like(outputs.logp)};
    };
    d_rows = head_forward_backward(head.rows.rows, head.weight, batch.loss_targets, needs, unit, memory, {});
  }
  const std::vector<SequenceSums> answers = sequence_sums(logp, batch);
  const SequenceLoss result = answers_loss(answers, objective, reference, scale);
  loss->loss += result.loss;
  for (size_t i = 0; i < reference.size(); ++i)
    loss->reference_gap = std::max(loss->reference_gap, std::abs(answers[i].logp - reference[i]));
  add(loss->metrics, result.metrics);
  const at::Tensor cotangents = by_position(result, answers, batch, scale.loss_scale, head.rows.rows.device());
  if (!head.weight_grad.defined()) return multiply_rows(d_rows, cotangents);
  const auto known = [&](int64_t begin, const TokenOutputs& outputs) {
    return TokenGrads{.logp = cotangents.narrow(0, begin, outputs.logsumexp.size(0))};
  };
  return head_forward_backward(head.rows.rows, head.weight, batch.loss_targets, {.logp = true}, known, memory, head.weight_grad);
}

}  // namespace forge
