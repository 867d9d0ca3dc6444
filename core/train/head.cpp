#include "core/train/head.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "core/lib/base/error.h"
#include "core/plan/memory/memory.h"
#include "kernels/device/device_of.h"

namespace forge {
namespace {

at::Tensor scaled(const std::vector<double>& cotangents, double scale, c10::Device device) {
  std::vector<float> values(cotangents.size());
  std::transform(cotangents.begin(), cotangents.end(), values.begin(), [&](double value) { return static_cast<float>(value * scale); });
  return at::tensor(values, at::kFloat).to(device);
}

// Multiplies every row by its factor, in place. rows [positions, hidden], factors fp32 [positions]
at::Tensor multiply_rows(at::Tensor rows, const at::Tensor& factors) {
  // A few rows at a time: in 16 bits LibTorch widens both factors first.
  for (int64_t begin = 0; begin < rows.size(0); begin += kScaledRows) {
    const int64_t count = std::min(kScaledRows, rows.size(0) - begin);
    rows.narrow(0, begin, count).mul_(factors.narrow(0, begin, count).unsqueeze(1));
  }
  return rows;
}

TokenNeeds likelihood_needs(const LikelihoodConfig& objective) {
  return {.logp = true,
          .logsumexp = objective.z_loss > 0 || objective.label_smoothing > 0,
          .mean_logit = objective.label_smoothing > 0};
}

// Returns the gradients of the supervised objectives (sft, pretrain): the negative log-likelihood
// of the supervised tokens. Adds Σ w · […] of the positions to `sum`.
//
//   loss = Σ w · [ (1 − ε) · (−logp) + ε · (logsumexp − mean_logit) + z · logsumexp² ] / Σ w over the optimizer step
//
// ε is label smoothing with a uniform distribution over the vocabulary, z the z-loss coefficient.
// The data path decides which tokens carry weight: sft and pretrain differ there and nowhere else.
// weights fp32 [positions]
TokenGrads likelihood_grads(const LikelihoodConfig& objective, const TokenOutputs& outputs,
                            const at::Tensor& weights, const StepScale& scale, double& sum) {
  double smoothing = objective.label_smoothing, z = objective.z_loss;
  at::Tensor loss = outputs.logp.neg();
  if (smoothing > 0) loss = loss.mul_(1 - smoothing).add_(outputs.logsumexp - outputs.mean_logit, smoothing);
  if (z > 0) loss = loss.add_(outputs.logsumexp.square(), z);
  sum += (loss * weights).sum(at::kDouble).item<double>();
  const at::Tensor scaled = weights * (scale.loss_scale / scale.divisor);  // d loss / d (per-token loss)
  TokenGrads grads{.logp = scaled * -(1 - smoothing)};
  if (smoothing > 0) grads.mean_logit = scaled * -smoothing;
  if (smoothing > 0 || z > 0) grads.logsumexp = scaled * (smoothing + 2 * z * outputs.logsumexp);
  return grads;
}

at::Tensor scores_of(const at::Tensor& rows, const at::Tensor& weight) { return at::mv(rows.to(at::kFloat), weight.view({-1})); }

}  // namespace

std::vector<double> host_doubles(const at::Tensor& values) {
  const at::Tensor copy = values.to(at::kCPU, at::kDouble).contiguous();
  return {copy.const_data_ptr<double>(), copy.const_data_ptr<double>() + copy.numel()};
}

at::Tensor Head::score_weight() const { return (trained_ ? trained_->master : model_.head.detach()).to(at::kFloat); }

HeadMemory Head::memory(const HeadRows& rows) const {
  return {.scratch = rows.scratch, .d_hidden = rows.d_rows, .softcap = model_.spec.logit_softcap, .bias = bias(),
          .bias_grad = bias_ ? bias_->grad : at::Tensor()};
}

TokenOutputs Head::numbers(const HeadRows& rows, const BatchTensors& batch, const TokenNeeds& needs) {
  c10::NoGradGuard no_grad;
  if (model_.spec.score_head) return {.logp = scores_of(rows.rows, score_weight())};
  const bool logp_alone = !needs.logsumexp && !needs.mean_logit && !needs.entropy && !needs.top1 && needs.temperature == 1;
  if (!rows.fused || !logp_alone)
    return head_forward(rows.rows, weight(), batch.loss_targets, needs,
                        {.scratch = rows.scratch, .softcap = model_.spec.logit_softcap, .bias = bias()});
  LmHead args = *rows.fused;
  if (args.positions == 0) return {};
  TokenOutputs outputs{.logp = at::empty({args.positions}, rows.rows.options().dtype(at::kFloat))};
  args.logp = outputs.logp.data_ptr<float>();
  device_of(rows.rows.device()).run(args);
  return outputs;
}

at::Tensor Head::likelihood_backward(const HeadRows& rows, const BatchTensors& batch, const LikelihoodConfig& objective,
                                     const StepScale& scale, BatchLoss& loss) {
  if (rows.fused) {
    loss.later = run_fused(rows, batch.host_weights, objective, scale.loss_scale / scale.divisor);
    return rows.d_rows;
  }
  const auto cotangents = [&](int64_t begin, const TokenOutputs& chunk) {
    const at::Tensor weights = batch.loss_weights.narrow(0, begin, chunk.logsumexp.size(0));
    return likelihood_grads(objective, chunk, weights, scale, loss.loss);
  };
  return head_forward_backward(rows.rows, weight(), batch.loss_targets, likelihood_needs(objective), cotangents, memory(rows), weight_grad());
}

at::Tensor Head::backward(const HeadRows& rows, const BatchTensors& batch, const HeadTask& task, TokenOutputs& kept) {
  c10::NoGradGuard no_grad;
  if (model_.spec.score_head) return backward_of_scores(rows, task, kept);
  const at::Tensor w = weight(), d_w = weight_grad();
  kept = {.logp = at::empty({rows.rows.size(0)}, rows.rows.options().dtype(at::kFloat))};
  if (task.keeps_entropy) kept.entropy = at::empty_like(kept.logp);
  const auto look = [&](int64_t begin, const TokenOutputs& chunk) {
    const int64_t count = chunk.logp.size(0);
    kept.logp.narrow(0, begin, count).copy_(chunk.logp);
    if (kept.entropy.defined()) kept.entropy.narrow(0, begin, count).copy_(chunk.entropy);
    if (task.see) task.see(chunk);
  };
  const auto visit = [&](const TokenNeeds& needs, const Cotangents& cotangents) {
    return head_forward_backward(rows.rows, w, batch.loss_targets, needs, cotangents, memory(rows), d_w);
  };
  if (!task.known.empty()) {
    FORGE_CHECK(static_cast<int64_t>(task.known.size()) == rows.rows.size(0), "cotangents of other positions");
    const at::Tensor logp = scaled(task.known, task.loss_scale, rows.rows.device());
    return visit(task.needs, [&](int64_t begin, const TokenOutputs& chunk) {
      look(begin, chunk);
      return TokenGrads{.logp = logp.narrow(0, begin, chunk.logp.size(0))};
    });
  }
  const bool twice = d_w.defined() || bias_ || task.pulls_entropy;
  at::Tensor d_rows;
  if (twice) {
    look(0, head_forward(rows.rows, w, batch.loss_targets, task.needs, memory(rows)));
  } else {
    d_rows = visit(task.needs, [&](int64_t begin, const TokenOutputs& chunk) {
      look(begin, chunk);
      return TokenGrads{.logp = at::ones_like(chunk.logp)};
    });
  }
  const RowCotangents cotangents = task.from_rows(kept);
  const at::Tensor logp = scaled(cotangents.logp, task.loss_scale, rows.rows.device());
  if (!twice) return multiply_rows(d_rows, logp);
  const at::Tensor entropy = cotangents.entropy.empty() ? at::Tensor() : scaled(cotangents.entropy, task.loss_scale, rows.rows.device());
  return visit({.logp = true, .entropy = entropy.defined(), .temperature = task.needs.temperature},
               [&](int64_t begin, const TokenOutputs& chunk) {
                 const int64_t count = chunk.logsumexp.size(0);
                 return TokenGrads{.logp = logp.narrow(0, begin, count),
                                   .entropy = entropy.defined() ? entropy.narrow(0, begin, count) : at::Tensor()};
               });
}

at::Tensor Head::backward_of_scores(const HeadRows& rows, const HeadTask& task, TokenOutputs& kept) {
  const at::Tensor w = score_weight(), wide = rows.rows.to(at::kFloat);
  kept = {.logp = scores_of(wide, w)};
  const at::Tensor g = scaled(task.from_rows(kept).logp, task.loss_scale, wide.device());
  if (const at::Tensor d_w = weight_grad(); d_w.defined()) d_w.view({-1}).add_(at::mv(wide.t(), g));
  at::Tensor d_rows = rows.d_rows.defined() ? rows.d_rows : at::empty_like(rows.rows);
  return d_rows.copy_(at::outer(g, w.view({-1})));
}

std::function<double()> Head::run_fused(const HeadRows& rows, const std::vector<float>& weights, const LikelihoodConfig& objective, double scale) {
  LmHead args = *rows.fused;
  if (args.positions == 0) return [] { return 0.0; };
  ComputeDevice& device = device_of(rows.rows.device());
  args.label_smoothing = static_cast<float>(objective.label_smoothing);
  args.z_loss = static_cast<float>(objective.z_loss);
  if (const at::Tensor d_w = weight_grad(); d_w.defined()) args.d_weight = d_w.data_ptr<float>();
  // The losses and their weights are after the kernel's own workspace.
  auto* loss = reinterpret_cast<float*>(rows.scratch.data_ptr<uint8_t>() + rows.scratch.numel()) - 2 * args.positions;
  float* loss_weight = loss + args.positions;
  std::vector<float> numbers(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) numbers[i] = static_cast<float>(weights[i] * scale);
  const auto bytes = static_cast<int64_t>(numbers.size() * sizeof(float));
  device.write(loss_weight, numbers.data(), bytes);
  args.loss = loss;
  args.loss_weight = loss_weight;
  captures_.run(device, args, [&] { device.run(args); });
  return [weights, losses = device.fetch(loss, bytes)] {
    std::vector<float> numbers(weights.size());
    losses->take(numbers.data());
    double sum = 0;
    for (size_t i = 0; i < weights.size(); ++i) sum += static_cast<double>(numbers[i]) * static_cast<double>(weights[i]);
    return sum;
  };
}

}  // namespace forge
