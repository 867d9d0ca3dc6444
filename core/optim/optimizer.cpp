#include "core/optim/optimizer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>

#include "kernels/optimizer/optimizer_args.h"

namespace forge {
namespace {

// As kernels/optimizer has it, where no kernel runs.
void measure_composed(const at::Tensor& grad, double unscale, double max_norm, GradientVerdict& verdict) {
  const auto total = at::linalg_vector_norm(grad, 2, {}, false, at::kDouble).item<double>();
  const double norm = total * unscale, clip = max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1;
  verdict.numbers = {static_cast<float>(norm), static_cast<float>(unscale * clip), std::isfinite(total) ? 1.0f : 0.0f};
}

}  // namespace

Optimizer::Optimizer(const OptimizerConfig& config, double lora_plus_ratio, TrainableSet& trainables)
    : trainables_(trainables), rule_(rule_of(config)) {
  const TrainedLayout& layout = trainables.layout();
  const auto options = trainables.master().options();
  for (const StatePart& part : layout.state)
    states_.push_back(at::zeros({part.values}, options.dtype(part.bytes_only ? at::kByte : at::kFloat)));
  for (const TrainedSlice& slice : layout.slices) {
    if (stretches_.empty() || stretches_.back().update.coded != slice.coded)
      stretches_.push_back({.begin = slice.offset, .state_begin = slice.state_offset, .update = {.coded = slice.coded}});
    Stretch& stretch = stretches_.back();
    UpdateStretch& update = stretch.update;
    const auto factor = static_cast<float>(slice.parameter.role == Role::lora_b ? lora_plus_ratio : 1);
    const auto decay = static_cast<float>(slice.parameter.weight_decay ? config.weight_decay : 0);
    const int64_t end = slice.offset + slice.padded - stretch.begin;
    if (!update.ends.empty() && update.rate_factors.back() == factor && update.decays.back() == decay) {
      update.ends.back() = end;
    } else {
      update.ends.push_back(end), update.rate_factors.push_back(factor), update.decays.push_back(decay);
    }
  }
  for (Stretch& stretch : stretches_)
    for (size_t i = 0; i < layout.state.size(); ++i) {
      const StatePart& part = layout.state[i];
      if (part.coded == stretch.update.coded)
        stretch.update.state.push_back(
            states_[i].narrow(0, stretch.state_begin / part.block, stretch.update.ends.back() / part.block));
    }
}

int64_t Optimizer::norm_workspace() const {
  return gradient_norm_cpu_workspace({.count = trainables_.elements()});
}

const GradientVerdict& Optimizer::measure(double unscale, double max_norm, void* workspace) {
  const at::Tensor& grad = trainables_.grad();
  if (!grad.device().is_cpu()) {
    measure_composed(grad, unscale, max_norm, verdict_);
    return verdict_;
  }
  gradient_norm_cpu({.count = grad.numel(),
                     .grad = grad.const_data_ptr<float>(),
                     .unscale = static_cast<float>(unscale),
                     .max_norm = static_cast<float>(max_norm),
                     .verdict = verdict_.numbers.data(),
                     .workspace = workspace});
  return verdict_;
}

void Optimizer::update(double learning_rate, int64_t updates) {
  c10::NoGradGuard no_grad;
  const UpdateStep step{learning_rate, updates, verdict_.numbers.data()};
  const bool cpu = trainables_.master().device().is_cpu();
  for (Stretch& stretch : stretches_) {
    UpdateStretch& update = stretch.update;
    const int64_t count = update.ends.back();
    update.weight = trainables_.master().narrow(0, stretch.begin, count);
    update.grad = trainables_.grad().narrow(0, stretch.begin, count);
    if (trainables_.copy().defined()) update.copy = trainables_.copy().narrow(0, stretch.begin, count);
    (cpu ? update_by_kernels : update_composed)(rule_, step, update);
  }
}

}  // namespace forge
