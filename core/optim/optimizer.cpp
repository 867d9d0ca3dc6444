#include "core/optim/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <cmath>

namespace forge {

Optimizer::Optimizer(const OptimizerConfig& config, double lora_plus_ratio, TrainableSet& trainables)
    : config_(config), trainables_(trainables) {
  const auto& items = trainables.items();
  for (size_t i = 0; i < items.size(); ++i) {
    int64_t end = i + 1 < items.size() ? items[i + 1].offset : trainables.elements();
    double factor = items[i].parameter.role == Role::lora_b ? lora_plus_ratio : 1;
    bool decays = items[i].parameter.weight_decay && config.weight_decay > 0;
    if (!ranges_.empty() && ranges_.back().rate_factor == factor && ranges_.back().decays == decays)
      ranges_.back().end = end;
    else
      ranges_.push_back({items[i].offset, end, factor, decays});
  }
  auto zeros = [&] { return at::zeros({trainables.elements()}, trainables.master().options().dtype(at::kFloat)); };
  if (config.type == OptimizerType::adamw) states_ = {{"exp_avg", zeros()}, {"exp_avg_sq", zeros()}};
  else if (config.momentum > 0) states_ = {{"momentum", zeros()}};
}

void Optimizer::update(double learning_rate, double grad_scale, int64_t updates) {
  c10::NoGradGuard no_grad;
  if (grad_scale != 1) trainables_.grad().mul_(grad_scale);
  for (const Range& range : ranges_) update_range(range, learning_rate * range.rate_factor, updates);
  trainables_.publish();
}

void Optimizer::update_range(const Range& range, double learning_rate, int64_t updates) {
  int64_t begin = range.begin, count = range.end - range.begin;
  at::Tensor stored = trainables_.master().narrow(0, begin, count);
  // Without fp32 masters the update still happens in fp32, on a copy.
  at::Tensor weights = stored.to(at::kFloat);
  at::Tensor grad = trainables_.grad().narrow(0, begin, count);
  double decay = range.decays ? config_.weight_decay : 0;
  if (config_.type == OptimizerType::adamw) {
    at::Tensor mean = states_[0].flat.narrow(0, begin, count), square = states_[1].flat.narrow(0, begin, count);
    // The operator increments nothing itself: it is told which update this is.
    at::Tensor step = at::full({}, static_cast<double>(updates), weights.options());
    at::_fused_adamw_({weights}, {grad}, {mean}, {square}, {}, {step}, learning_rate, config_.betas[0], config_.betas[1],
                      decay, config_.eps, /*amsgrad=*/false, /*maximize=*/false);
  } else {
    if (decay > 0) grad.add_(weights, decay);
    if (!states_.empty()) grad = states_[0].flat.narrow(0, begin, count).mul_(config_.momentum).add_(grad);
    weights.add_(grad, -learning_rate);
  }
  if (!weights.is_same(stored)) stored.copy_(weights);
}

double gradient_norm(const at::Tensor& flat) {
  if (!flat.device().is_cpu()) return at::linalg_vector_norm(flat, 2, {}, false, at::kDouble).item<double>();
  // Blocks of fixed size, summed in order: the number of threads cannot change the result.
  constexpr int64_t kBlock = 1 << 16;
  int64_t count = flat.numel(), blocks = (count + kBlock - 1) / kBlock;
  std::vector<double> partial(static_cast<size_t>(blocks));
  const float* values = flat.const_data_ptr<float>();
  at::parallel_for(0, blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      double sums[8] = {};
      int64_t end = std::min(count, (block + 1) * kBlock);
      for (int64_t i = block * kBlock; i < end; ++i) sums[i & 7] += static_cast<double>(values[i]) * values[i];
      for (double sum : sums) partial[static_cast<size_t>(block)] += sum;
    }
  });
  double total = 0;
  for (double sum : partial) total += sum;
  return std::sqrt(total);
}

}  // namespace forge
