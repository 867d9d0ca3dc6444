#include "core/learn/rollout/policy_step.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/learn/reinforce/advantage.h"
#include "core/learn/reinforce/value.h"
#include "core/lib/base/error.h"

namespace forge {
namespace {

PolicyRule rule_of(const ObjectiveConfig& objective) {
  const auto& o = objective.as<PolicyConfig>();
  const auto& grpo = objective.as<GrpoConfig>();
  return {.term = grpo.policy, .ratio = grpo.policy == PolicyTerm::reinforce ? PolicyRatio::token : grpo.ratio,
          .clip_low = o.clip_low, .clip_high = o.clip_high, .dual_clip = o.dual_clip};
}

std::vector<double> widened(const std::vector<float>& values) { return {values.begin(), values.end()}; }

bool in_loss(const PolicyConfig& o) { return o.kl.weight > 0 && o.kl.in == KlPlace::loss; }

bool trains(const PolicyConfig& o, const Completion& c) { return c.counts && !(o.mask_truncated && c.truncated); }

// Returns Σ over the completion of the cost of the divergence from the base. reinforce++'s authors
// take it off token by token; with a discount of 1 that differs only in what later tokens cannot
// answer for.
double divergence_of(const PolicyConfig& o, const Completion& c) {
  FORGE_CHECK(c.old_logps.size() == c.sampler_logps.size() && c.base_logps.size() == c.sampler_logps.size(), "a completion without its log-probabilities");
  double sum = 0;
  for (size_t t = 0; t < c.old_logps.size(); ++t) sum += kl_term(c.old_logps[t], c.base_logps[t], o.kl.estimator).value;
  return sum;
}

// Factors of each token's loss and of its cotangent. A loss of the whole sequence is repeated at
// every token, so its gradient is that of as many losses.
struct TokenWeights {
  std::vector<double> loss, cotangent;
};
TokenWeights weights_of(const PolicyRule& rule, const PolicyStep& step, const Completion& c) {
  const auto tokens = static_cast<size_t>(c.tokens());
  TokenWeights weights{step.correction ? importance_weights(c, *step.correction) : std::vector<double>(tokens, 1), {}};
  weights.cotangent = weights.loss;
  if (rule.ratio != PolicyRatio::token)
    weights.cotangent.assign(tokens, std::accumulate(weights.loss.begin(), weights.loss.end(), 0.0));
  return weights;
}

PolicyLoss loss_of(const PolicyRule& rule, const PolicyStep& step, const Completion& c, const std::vector<double>& logps,
                   const std::vector<double>& old) {
  PolicyRule own = rule;
  if (rule.ratio == PolicyRatio::group) own.group_denominator = step.group_denominators.at(static_cast<size_t>(c.group));
  return c.advantages.empty() ? policy_loss(logps, old, c.advantage, own) : policy_loss(logps, old, c.advantages, own);
}

bool costs_reward(const PolicyConfig& o) { return o.kl.weight > 0 && o.kl.in == KlPlace::reward; }

// True if a completion succeeded, which the first of the rewards decides.
bool succeeded(const Completion& c) { return !c.parts.empty() && c.parts[0].score.value_or(0) >= 1; }

// Returns the gradient of the likelihood of a completion that succeeded, to each of its tokens.
double success_cotangent(const PpoConfig& o, const PolicyStep& step, const Completion& c) {
  return step.success_tokens > 0 && succeeded(c) ? -o.success_nll / step.success_tokens : 0;
}

// Computes advantages and returns of every token of a completion that counts.
void estimate(const PpoConfig& o, Completion& c) {
  FORGE_CHECK(c.values.size() == c.sampler_logps.size(), "a completion without its values");
  std::vector<double> rewards(c.values.size());
  if (costs_reward(o))
    for (size_t t = 0; t < rewards.size(); ++t)
      rewards[t] = -o.kl.weight * kl_term(c.old_logps.at(t), c.base_logps.at(t), o.kl.estimator).value;
  rewards.back() += *c.reward;
  const std::vector<double> values = widened(c.values);
  const double lambda = o.lambda_length ? lambda_of_length(*o.lambda_length, c.tokens()) : o.lambda_policy;
  c.advantages = generalized_advantages(rewards, values, o.gamma_discount, lambda);
  c.returns = generalized_advantages(rewards, values, o.gamma_discount, o.lambda_value);
  for (size_t t = 0; t < values.size(); ++t) c.returns[t] += values[t];
}

void give_token_advantages(const PpoConfig& o, Rollout& rollout) {
  std::vector<std::vector<double>*> all;
  std::set<int64_t> groups;
  for (Completion& c : rollout.completions) {
    c.counts = c.reward && c.tokens() > 0;
    if (!c.counts) continue;
    groups.insert(c.group);
    estimate(o, c);
    all.push_back(&c.advantages);
  }
  if (o.advantage_scale == AdvantageScale::batch) whiten_tokens(all);
  for (Completion& c : rollout.completions)
    if (c.counts) c.advantage = std::accumulate(c.advantages.begin(), c.advantages.end(), 0.0) / static_cast<double>(c.tokens());
  rollout.groups = static_cast<int64_t>(groups.size());
  rollout.dropped_groups = rollout.groups_drawn() - rollout.groups;
}

}  // namespace

void give_advantages(const ObjectiveConfig& objective, Rollout& rollout) {
  if (const auto* ppo = objective.find<PpoConfig>()) return give_token_advantages(*ppo, rollout);
  const auto& o = objective.as<GrpoConfig>();
  const bool costs = costs_reward(o);
  std::vector<CompletionReward> rewards;
  for (const Completion& c : rollout.completions) {
    std::optional<double> reward = c.reward;
    if (reward && costs) *reward -= o.kl.weight * divergence_of(o, c);
    rewards.push_back({c.group, reward, c.tokens()});
  }
  const Advantages made = make_advantages(rewards, {.baseline = o.baseline, .scale = o.advantage_scale});
  for (size_t i = 0; i < rollout.completions.size(); ++i) {
    rollout.completions[i].advantage = made.values[i];
    rollout.completions[i].counts = made.counts[i];
  }
  rollout.groups = made.groups;
  rollout.flat_groups = made.flat_groups;
  rollout.dropped_groups = made.dropped_groups;
}

int64_t steps_per_rollout(const PolicyConfig& o) { return o.updates_per_rollout * o.epochs_per_rollout; }

std::vector<double> importance_weights(const Completion& c, double limit) {
  FORGE_CHECK(c.old_logps.size() == c.sampler_logps.size(), "a completion without its log-probabilities");
  std::vector<double> weights;
  for (size_t t = 0; t < c.old_logps.size(); ++t) weights.push_back(std::min(limit, std::exp(double{c.old_logps[t]} - c.sampler_logps[t])));
  return weights;
}

bool needs_old_logps(const ObjectiveConfig& objective) {
  const auto& o = objective.as<PolicyConfig>();
  const auto& grpo = objective.as<GrpoConfig>();
  const bool ratio = grpo.policy != PolicyTerm::reinforce;
  return (ratio && (steps_per_rollout(o) > 1 || grpo.ratio == PolicyRatio::group)) || costs_reward(o);
}

PolicyStep policy_step(const ObjectiveConfig& objective, int64_t max_new_tokens, const Rollout& rollout, int64_t update) {
  const auto& o = objective.as<PolicyConfig>();
  const auto& grpo = objective.as<GrpoConfig>();
  const auto* ppo = objective.find<PpoConfig>();
  PolicyStep step;
  step.first = update == 0;
  const bool by_group = grpo.policy != PolicyTerm::reinforce && grpo.ratio == PolicyRatio::group;
  const bool same_policy = step.first || grpo.policy == PolicyTerm::reinforce;
  step.known = same_policy && !by_group && !in_loss(o) && o.entropy_weight == 0;
  const int64_t part = update % o.updates_per_rollout, groups = rollout.groups_drawn();
  const int64_t begin = part * groups / o.updates_per_rollout, end = (part + 1) * groups / o.updates_per_rollout;
  std::vector<int64_t> tokens;
  std::vector<std::vector<std::vector<double>>> old_of_group(by_group ? static_cast<size_t>(groups) : 0);
  for (size_t i = 0; i < rollout.completions.size(); ++i) {
    const Completion& c = rollout.completions[i];
    if (by_group && c.counts) old_of_group[static_cast<size_t>(c.group)].push_back(widened(c.old_logps));
    if (c.group < begin || c.group >= end || !trains(o, c)) continue;
    tokens.push_back(c.tokens());
    if (ppo) step.valued.push_back(i), step.value_tokens += static_cast<double>(c.tokens());
    if (ppo && ppo->success_nll > 0 && succeeded(c)) step.success_tokens += static_cast<double>(c.tokens());
    if (c.advantage != 0 || ppo || in_loss(o) || o.entropy_weight > 0) step.trained.push_back(i);
  }
  for (const auto& old : old_of_group) step.group_denominators.push_back(old.empty() ? 1 : group_denominator(old));
  step.divisor = step_divisor(o.mean, tokens, max_new_tokens);
  return step;
}

std::vector<double> known_cotangents(const ObjectiveConfig& objective, const PolicyStep& step, const Completion& c) {
  const auto& o = objective.as<PolicyConfig>();
  const PolicyRule rule = rule_of(objective);
  // The new and the old log-probabilities are equal, whatever they are.
  const std::vector<double> any(c.sampler_logps.size());
  std::vector<double> cotangents = loss_of(rule, step, c, any, any).cotangent;
  const std::vector<double> weights = weights_of(rule, step, c).cotangent;
  const double each = token_weight(o.mean, c.tokens()), success = success_cotangent(objective.as<PpoConfig>(), step, c);
  for (size_t t = 0; t < cotangents.size(); ++t) cotangents[t] = cotangents[t] * (each * weights[t] / step.divisor) + success;
  return cotangents;
}

PolicyTokens policy_tokens(const ObjectiveConfig& objective, const PolicyStep& step, const Completion& c,
                           const std::vector<double>& logps) {
  FORGE_CHECK(logps.size() == c.sampler_logps.size(), "log-probabilities of other tokens");
  const auto& o = objective.as<PolicyConfig>();
  const PolicyRule rule = rule_of(objective);
  const bool by_group = rule.ratio == PolicyRatio::group;
  const bool has_old = !c.old_logps.empty();
  const std::vector<double> old = has_old && (!step.first || by_group) ? widened(c.old_logps) : logps;
  const PolicyLoss loss = loss_of(rule, step, c, logps, old);
  const TokenWeights weights = weights_of(rule, step, c);
  const double each = token_weight(o.mean, c.tokens());
  const double success = success_cotangent(objective.as<PpoConfig>(), step, c);
  PolicyTokens result;
  result.entropy_cotangent = -o.entropy_weight * each / step.divisor;
  const auto tokens = static_cast<double>(logps.size());
  for (size_t t = 0; t < logps.size(); ++t) {
    double cotangent = weights.cotangent[t] * loss.cotangent[t], token_loss = weights.loss[t] * loss.token_loss[t];
    if (!c.base_logps.empty()) {
      const KlTerm kl = kl_term(logps[t], c.base_logps[t], o.kl.estimator);
      result.metrics["kl"].add(kl.value);
      if (in_loss(o)) {
        // The divergence of the policy that is trained, from tokens of the one that drew.
        const double ratio = weights.loss[t] * std::exp(logps[t] - old[t]);
        token_loss += o.kl.weight * ratio * kl.value;
        cotangent += o.kl.weight * ratio * kl.cotangent;
      }
    }
    result.cotangents.push_back(cotangent * each / step.divisor + success);
    result.loss += token_loss * each + success * logps[t] * step.divisor;
    result.metrics["ratio"].add(loss.ratio[t]);
    result.ratio_most = std::max(result.ratio_most, loss.ratio[t]);
    result.metrics["kl_old"].add(old[t] - logps[t]);
  }
  result.metrics["clip_low_share"] = {static_cast<double>(loss.clipped_low), tokens};
  result.metrics["clip_high_share"] = {static_cast<double>(loss.clipped_high), tokens};
  result.metrics["dual_clip_share"] = {static_cast<double>(loss.clipped_dual), tokens};
  return result;
}

PolicyTokens value_tokens(const PpoConfig& o, const PolicyStep& step, const Completion& c, const std::vector<double>& values) {
  const ValueLoss loss = value_loss(values, widened(c.values), c.returns, o.value.clip);
  const auto tokens = static_cast<double>(values.size());
  PolicyTokens result;
  for (const double cotangent : loss.cotangent) result.cotangents.push_back(cotangent / step.value_tokens);
  for (const double value : loss.token_loss) result.loss += value;
  result.metrics["value_loss"] = {result.loss, tokens};
  result.metrics["value_clip_share"] = {static_cast<double>(loss.clipped), tokens};
  return result;
}

}  // namespace forge
