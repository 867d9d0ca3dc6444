#include "core/train/optim/rules.h"

#include "core/model/families/trained_layout.h"

namespace forge {

OptimizerRule rule_of(const OptimizerConfig& config) {
  const std::vector<double> betas = config.betas.value_or(default_betas(config.type));
  switch (config.type) {
    case OptimizerType::adamw:
      return AdamW{betas[0], betas[1], config.eps};
    case OptimizerType::adamw_8bit:
      return AdamW8bit{{betas[0], betas[1], config.eps}};
    case OptimizerType::lion:
      return Lion{betas[0], betas[1]};
    case OptimizerType::adafactor:
      return Adafactor{};
    case OptimizerType::muon:
      return Muon{config.momentum.value_or(default_momentum(config.type)), {betas[0], betas[1], config.eps}};
    case OptimizerType::schedule_free:
      return ScheduleFree{betas[0], betas[1], config.eps};
    case OptimizerType::sgd:
      break;
  }
  return Sgd{config.momentum.value_or(0)};
}

UpdateNumbers numbers_of(const OptimizerRule& rule, double learning_rate, int64_t number) {
  const auto* muon = std::get_if<Muon>(&rule);
  const AdamW* adamw = muon ? &muon->other : std::get_if<AdamW>(&rule);
  if (const auto* in_bytes = std::get_if<AdamW8bit>(&rule)) adamw = in_bytes;
  if (adamw) return update_numbers(learning_rate, adamw->beta1, adamw->beta2, number);
  return {.lr = static_cast<float>(learning_rate)};
}

bool by_parameter(const OptimizerRule& rule) { return std::holds_alternative<Adafactor>(rule); }

}  // namespace forge
