#include "core/learn/objective/objective.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/job/names.h"
#include "core/learn/objective/dpo.h"
#include "core/lib/base/error.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

PairLoss dpo(const ObjectiveConfig& objective, const SequenceSums& c, const SequenceSums& r) {
  const auto& o = objective.as<DpoConfig>();
  return dpo_row(o.loss).pair(o, c, r);
}

// Meng et al., 2024.
PairLoss simpo(const ObjectiveConfig& objective, const SequenceSums& c, const SequenceSums& r) {
  const auto& o = objective.as<SimpoConfig>();
  const double u = *o.beta * (c.mean() - r.mean()) - o.gamma, pull = *o.beta * logistic(-u);
  return {softplus(-u), -pull / static_cast<double>(c.tokens), pull / static_cast<double>(r.tokens)};
}

// A mean of 0 means probability 1, whose odds are infinite.
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

// Hong et al., 2024: the odds-ratio term; the likelihood term is nll_weight's.
PairLoss orpo(const ObjectiveConfig& objective, const SequenceSums& c, const SequenceSums& r) {
  const auto& o = objective.as<OrpoConfig>();
  const LogOdds chosen = log_odds(c), rejected = log_odds(r);
  const double odds = chosen.value - rejected.value, pull = o.odds_weight * logistic(-odds);
  return {o.odds_weight * softplus(-odds), -pull * chosen.d_sum, pull * rejected.d_sum};
}

// Xu et al., 2024.
PairLoss cpo(const ObjectiveConfig& objective, const SequenceSums& c, const SequenceSums& r) {
  const auto& o = objective.as<CpoConfig>();
  const double u = *o.beta * (c.logp - r.logp), pull = *o.beta * logistic(-u);
  return {softplus(-u), -pull, pull};
}

// Ethayarajh et al., 2024: z₀ is a constant for the gradient.
AnswerLoss kto(const ObjectiveConfig& objective, const SequenceSums& answer, double divergence) {
  const auto& o = objective.as<KtoConfig>();
  const double way = answer.desirable ? 1 : -1, weight = answer.desirable ? o.desirable_weight : o.undesirable_weight;
  const double u = way * *o.beta * (answer.ratio() - divergence);
  return {weight * logistic(-u), -way * weight * *o.beta * logistic(u) * logistic(-u)};
}

// Bradley and Terry, 1952, with the margin of Touvron et al., 2023, and the centring of Eisenstein
// et al., 2023.
PairLoss bradley_terry(const ObjectiveConfig& objective, const SequenceSums& c, const SequenceSums& r) {
  const auto& o = objective.as<RewardModelConfig>();
  const double u = c.logp - r.logp - c.margin, both = c.logp + r.logp, pull = logistic(-u);
  return {softplus(-u) + o.center * both * both, -pull + 2 * o.center * both, pull + 2 * o.center * both};
}

double score(const ObjectiveConfig&, const SequenceSums& answer) { return answer.logp; }
double implicit_reward(const ObjectiveConfig& o, const SequenceSums& answer) { return *o.as<Preferring>().beta * answer.ratio(); }
double mean_reward(const ObjectiveConfig& o, const SequenceSums& answer) { return *o.as<Preferring>().beta * answer.mean(); }
double odds_reward(const ObjectiveConfig& o, const SequenceSums& answer) {
  return o.as<OrpoConfig>().odds_weight * log_odds(answer).value;
}

std::string likelihood_formula(const ObjectiveConfig& objective) {
  const auto& o = objective.as<LikelihoodConfig>();
  std::string text = o.label_smoothing > 0 ? "−(1−" + format_number(o.label_smoothing) + ") log p + " +
                                                 format_number(o.label_smoothing) + " (log Z − mean logit)"
                                           : "−log p";
  return o.z_loss > 0 ? text + " + " + format_number(o.z_loss) + " log² Z" : text;
}

std::string with_likelihood(const LikelihoodBeside& o, std::string formula) {
  if (*o.nll_weight != 0)
    formula += " − " + format_number(*o.nll_weight) + (o.nll_mean == NllMean::token ? " s_c / mean n_c" : " a_c") +
               (o.nll_on == NllOn::all ? " of the whole chosen text" : "");
  return formula;
}
std::string dpo_formula(const ObjectiveConfig& objective) {
  const auto& o = objective.as<DpoConfig>();
  const DpoRow& row = dpo_row(o.loss);
  std::string text = name_of(o.loss) + ": " + with_likelihood(o, row.formula) + "; β " + format_number(*o.beta);
  if (takes_label_flip(o.loss)) text += ", ε " + format_number(o.label_flip);
  if (o.loss == DpoLoss::ipo) text += ", aims at a gap of " + format_number(1 / (2 * *o.beta)) + " a token";
  return text;
}
std::string simpo_formula(const ObjectiveConfig& objective) {
  const auto& o = objective.as<SimpoConfig>();
  return with_likelihood(o, "−log σ(β (a_c − a_r) − γ)") + "; β " + format_number(*o.beta) + ", γ " + format_number(o.gamma);
}
std::string orpo_formula(const ObjectiveConfig& objective) {
  const auto& o = objective.as<OrpoConfig>();
  return with_likelihood(o, "−λ log σ(log odds_c − log odds_r)") + "; λ " + format_number(o.odds_weight);
}
std::string cpo_formula(const ObjectiveConfig& objective) {
  const auto& o = objective.as<CpoConfig>();
  return with_likelihood(o, "−log σ(β (s_c − s_r))") + "; β " + format_number(*o.beta);
}
std::string kto_formula(const ObjectiveConfig& objective) {
  const auto& o = objective.as<KtoConfig>();
  return format_number(o.desirable_weight) + " (1 − σ(β (l − z₀))) of desirable answers, " + format_number(o.undesirable_weight) +
         " (1 − σ(β (z₀ − l))) of undesirable ones; β " + format_number(*o.beta) +
         ", z₀ the mean of l over the step's answers after each other's prompts, at least 0";
}
std::string reward_formula(const ObjectiveConfig& objective) {
  const auto& o = objective.as<RewardModelConfig>();
  std::string text = "−log σ(r_c − r_r − margin)";
  if (o.center != 0) text += " + " + format_number(o.center) + " (r_c + r_r)²";
  return text + "; r the score at an answer's last token";
}

std::string value_formula(const PpoConfig& o) {
  const std::string lambda = o.lambda_length ? "1 − 1 / (" + format_number(*o.lambda_length) + " n)" : format_number(o.lambda_policy);
  std::string text = "; A by generalised advantage estimation, γ " + format_number(o.gamma_discount) + ", λ " + lambda + " (returns λ " +
                     format_number(o.lambda_value) + ")";
  return o.advantage_scale == AdvantageScale::batch ? text + ", whitened over the rollout's tokens" : text;
}

std::string group_formula(const GrpoConfig& o) {
  const char* baselines[] = {"R − mean of the group", "R − mean of the others", "R"};
  const char* scales[] = {" over the group's deviation", " over the rollout's deviation", ""};
  return std::string("; A = ") + baselines[static_cast<size_t>(o.baseline)] + scales[static_cast<size_t>(o.advantage_scale)];
}

// Returns the policy objective in words: "clip 0.2/0.28 on the token ratio, group mean, group
// deviation, no divergence".
std::string policy_formula(const ObjectiveConfig& objective) {
  const auto& o = objective.as<PolicyConfig>();
  const auto& grpo = objective.as<GrpoConfig>();
  const auto* ppo = objective.find<PpoConfig>();
  std::string text = name_of(grpo.policy);
  if (grpo.policy == PolicyTerm::clip)
    text += " " + format_number(o.clip_low) + "/" + format_number(o.clip_high);
  if (grpo.policy == PolicyTerm::cispo) text += " below 1 + " + format_number(o.clip_high);
  if (o.dual_clip) text += ", dual clip " + format_number(*o.dual_clip);
  if (grpo.policy != PolicyTerm::reinforce) text += " on the ratio of the " + name_of(grpo.ratio);
  text += ppo ? value_formula(*ppo) : group_formula(grpo);
  if (o.kl.weight > 0)
    text += "; " + format_number(o.kl.weight) + " " + name_of(o.kl.estimator) + " of the divergence from the base " +
            (o.kl.in == KlPlace::loss ? "in the loss" : "subtracted from the reward");
  if (o.kl.measure) text += "; the divergence from the base is measured (" + name_of(o.kl.estimator) + ")";
  if (o.entropy_weight > 0) text += "; − " + format_number(o.entropy_weight) + " entropy";
  if (ppo && ppo->success_nll > 0) text += "; − " + format_number(ppo->success_nll) + " log p of completions that succeeded";
  return text;
}

}  // namespace

bool draws_completions(ObjectiveType type) { return objective_of(type).coupling == Coupling::policy; }
bool needs_base(const Job& job) {
  const auto* policy = job.objective.find<PolicyConfig>();
  return policy && (policy->kl.weight > 0 || policy->kl.measure || job.rollout.provider == RolloutProvider::http);
}

const Objective& objective_of(ObjectiveType type) {
  static const std::vector<Objective> table{
      {ObjectiveType::sft, Coupling::token, false, false, 0, 0, 0, 0, nullptr, nullptr, nullptr, likelihood_formula},
      {ObjectiveType::pretrain, Coupling::token, false, false, 0, 0, 0, 0, nullptr, nullptr, nullptr, likelihood_formula},
      {ObjectiveType::dpo, Coupling::pair, true, false, 0.1, 0, 1e-5, 1e-6, dpo, nullptr, implicit_reward, dpo_formula},
      {ObjectiveType::simpo, Coupling::pair, false, false, 2, 0, 1e-5, 1e-6, simpo, nullptr, mean_reward, simpo_formula},
      {ObjectiveType::orpo, Coupling::pair, false, false, 0, 1, 1e-5, 1e-6, orpo, nullptr, odds_reward, orpo_formula},
      {ObjectiveType::cpo, Coupling::pair, false, false, 0.1, 1, 1e-5, 1e-6, cpo, nullptr, implicit_reward, cpo_formula},
      {ObjectiveType::kto, Coupling::answer, true, false, 0.1, 0, 1e-5, 1e-6, nullptr, kto, implicit_reward, kto_formula},
      {ObjectiveType::reward, Coupling::pair, false, true, 0, 0, 1e-4, 1e-5, bradley_terry, nullptr, score, reward_formula},
      {ObjectiveType::grpo, Coupling::policy, false, false, 0, 0, 1e-5, 1e-6, nullptr, nullptr, nullptr, policy_formula},
      {ObjectiveType::ppo, Coupling::policy, false, false, 0, 0, 1e-5, 1e-6, nullptr, nullptr, nullptr, policy_formula},
  };
  const auto row = std::find_if(table.begin(), table.end(), [&](const Objective& o) { return o.type == type; });
  FORGE_CHECK(row != table.end(), "no objective of that type");
  return *row;
}

ObjectiveConfig with_defaults(ObjectiveConfig objective) {
  const Objective& row = objective_of(objective.type());
  if (auto* preferring = objective.find<Preferring>(); preferring && !preferring->beta) preferring->beta = row.beta;
  if (auto* beside = objective.find<LikelihoodBeside>(); beside && !beside->nll_weight) beside->nll_weight = row.nll_weight;
  return objective;
}

bool trains_on(const Objective& objective, RowFormat format) {
  const bool answers = format == RowFormat::preference || format == RowFormat::kto || format == RowFormat::reward;
  if (format == RowFormat::prompt || objective.coupling == Coupling::policy)
    return format == RowFormat::prompt && objective.coupling == Coupling::policy;
  if (objective.coupling == Coupling::answer) return format == RowFormat::kto || format == RowFormat::preference;
  return objective.coupling == Coupling::pair ? format == RowFormat::preference : !answers;
}

}  // namespace forge
