#include "core/train/optim/rules.h"

#include "core/model/families/trained_layout.h"

namespace forge {

OptimizerRule rule_of(const OptimizerConfig& config) {
  const std::vector<double> betas = config.betas.value_or(default_betas(config.type));
  switch (config.type) {
    case OptimizerType::adamw:
      return AdamW{betas[0], betas[1], config.eps};
    case OptimizerType::adamw_8bit:
      return AdamW8bit{betas[0], betas[1], config.eps};
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

namespace {

UpdateNumbers numbers_of(const AdamW& rule, double rate, int64_t number) { return update_numbers(rate, rule.beta1, rule.beta2, number); }
UpdateNumbers numbers_of(const AdamW8bit& rule, double rate, int64_t number) { return update_numbers(rate, rule.beta1, rule.beta2, number); }
UpdateNumbers numbers_of(const Muon& rule, double rate, int64_t number) { return numbers_of(rule.other, rate, number); }
template <class Rule>
UpdateNumbers numbers_of(const Rule&, double rate, int64_t) {
  return {.lr = static_cast<float>(rate)};
}

}  // namespace

UpdateNumbers numbers_of(const OptimizerRule& rule, double learning_rate, int64_t number) {
  return std::visit([&](const auto& r) { return numbers_of(r, learning_rate, number); }, rule);
}

bool by_parameter(const OptimizerRule& rule) { return std::holds_alternative<Adafactor>(rule); }

}  // namespace forge
