#include "core/objective/objective.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/config/names.h"
#include "core/config/objective_keys.h"
#include "core/objective/dpo.h"

namespace forge {
namespace {

PairLoss dpo(const ObjectiveConfig& o, const SequenceSums& c, const SequenceSums& r) {
  return dpo_row(o.loss).pair(o, c, r);
}

// Meng et al., 2024.
PairLoss simpo(const ObjectiveConfig& o, const SequenceSums& c, const SequenceSums& r) {
  const double u = *o.beta * (c.mean() - r.mean()) - o.gamma, pull = *o.beta * logistic(-u);
  return {softplus(-u), -pull / static_cast<double>(c.tokens), pull / static_cast<double>(r.tokens)};
}

// A mean of 0 is a certain answer, whose odds are infinite.
constexpr double kSurest = -1e-6;

struct LogOdds {
  double value, d_sum;  // log(p / (1 − p)) of p = e^a, and its slope by s; flat past kSurest
};
LogOdds log_odds(const SequenceSums& answer) {
  const double mean = std::min(answer.mean(), kSurest);
  const double rest = mean > -M_LN2 ? std::log(-std::expm1(mean)) : std::log1p(-std::exp(mean));
  const bool flat = answer.mean() > kSurest;
  return {mean - rest, flat ? 0 : -1 / (static_cast<double>(answer.tokens) * std::expm1(mean))};
}

// Hong et al., 2024: the odds ratio; the likelihood beside it is nll_weight's.
PairLoss orpo(const ObjectiveConfig& o, const SequenceSums& c, const SequenceSums& r) {
  const LogOdds chosen = log_odds(c), rejected = log_odds(r);
  const double odds = chosen.value - rejected.value, pull = o.odds_weight * logistic(-odds);
  return {o.odds_weight * softplus(-odds), -pull * chosen.d_sum, pull * rejected.d_sum};
}

// Xu et al., 2024.
PairLoss cpo(const ObjectiveConfig& o, const SequenceSums& c, const SequenceSums& r) {
  const double u = *o.beta * (c.logp - r.logp), pull = *o.beta * logistic(-u);
  return {softplus(-u), -pull, pull};
}

double implicit_reward(const ObjectiveConfig& o, const SequenceSums& answer) { return *o.beta * answer.ratio(); }
double mean_reward(const ObjectiveConfig& o, const SequenceSums& answer) { return *o.beta * answer.mean(); }
double odds_reward(const ObjectiveConfig& o, const SequenceSums& answer) {
  return o.odds_weight * log_odds(answer).value;
}

std::string likelihood_formula(const ObjectiveConfig& o) {
  std::string text = o.label_smoothing > 0 ? "−(1−" + format_number(o.label_smoothing) + ") log p + " +
                                                 format_number(o.label_smoothing) + " (log Z − mean logit)"
                                           : "−log p";
  return o.z_loss > 0 ? text + " + " + format_number(o.z_loss) + " log² Z" : text;
}

std::string with_likelihood(const ObjectiveConfig& o, std::string formula) {
  if (*o.nll_weight != 0) formula += " − " + format_number(*o.nll_weight) + " a_c";
  return formula;
}
std::string dpo_formula(const ObjectiveConfig& o) {
  const DpoRow& row = dpo_row(o.loss);
  std::string text = name_of(o.loss) + ": " + with_likelihood(o, row.formula) + "; β " + format_number(*o.beta);
  if (takes_label_flip(o.loss)) text += ", ε " + format_number(o.label_flip);
  if (o.loss == DpoLoss::ipo) text += ", aims at a gap of " + format_number(1 / (2 * *o.beta)) + " a token";
  return text;
}
std::string simpo_formula(const ObjectiveConfig& o) {
  return with_likelihood(o, "−log σ(β (a_c − a_r) − γ)") + "; β " + format_number(*o.beta) + ", γ " + format_number(o.gamma);
}
std::string orpo_formula(const ObjectiveConfig& o) {
  return with_likelihood(o, "−λ log σ(log odds_c − log odds_r)") + "; λ " + format_number(o.odds_weight);
}
std::string cpo_formula(const ObjectiveConfig& o) {
  return with_likelihood(o, "−log σ(β (s_c − s_r))") + "; β " + format_number(*o.beta);
}

}  // namespace

const Objective& objective_of(ObjectiveType type) {
  static const std::vector<Objective> table{
      {ObjectiveType::sft, Coupling::token, false, 0, 0, 0, 0, nullptr, nullptr, likelihood_formula},
      {ObjectiveType::pretrain, Coupling::token, false, 0, 0, 0, 0, nullptr, nullptr, likelihood_formula},
      {ObjectiveType::dpo, Coupling::pair, true, 0.1, 0, 1e-5, 1e-6, dpo, implicit_reward, dpo_formula},
      {ObjectiveType::simpo, Coupling::pair, false, 2, 0, 1e-5, 1e-6, simpo, mean_reward, simpo_formula},
      {ObjectiveType::orpo, Coupling::pair, false, 0, 1, 1e-5, 1e-6, orpo, odds_reward, orpo_formula},
      {ObjectiveType::cpo, Coupling::pair, false, 0.1, 1, 1e-5, 1e-6, cpo, implicit_reward, cpo_formula},
  };
  const auto row = std::find_if(table.begin(), table.end(), [&](const Objective& o) { return o.type == type; });
  FORGE_CHECK(row != table.end(), "no objective of that type");
  return *row;
}

ObjectiveConfig with_defaults(ObjectiveConfig objective) {
  const Objective& row = objective_of(objective.type);
  if (row.beta > 0 && !objective.beta) objective.beta = row.beta;
  if (row.coupling == Coupling::pair && !objective.nll_weight) objective.nll_weight = row.nll_weight;
  return objective;
}

bool trains_on(const Objective& objective, RowFormat format) {
  const bool answers = format == RowFormat::preference || format == RowFormat::kto || format == RowFormat::reward;
  if (format == RowFormat::prompt) return false;
  return objective.coupling == Coupling::pair ? format == RowFormat::preference : !answers;
}

}  // namespace forge
