#include "core/rollout/policy_step.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/reinforce/advantage.h"

namespace forge {
namespace {

PolicyRule rule_of(const ObjectiveConfig& o) {
  return {.term = o.policy, .ratio = o.policy == PolicyTerm::reinforce ? PolicyRatio::token : o.ratio,
          .clip_low = o.clip_low, .clip_high = o.clip_high, .dual_clip = o.dual_clip};
}

std::vector<double> widened(const std::vector<float>& values) { return {values.begin(), values.end()}; }

bool in_loss(const ObjectiveConfig& o) { return o.kl.weight > 0 && o.kl.in == KlPlace::loss; }

bool trains(const ObjectiveConfig& o, const Completion& c) { return c.counts && !(o.mask_truncated && c.truncated); }

// Σ over the completion of what the divergence from the base costs.
double divergence_of(const ObjectiveConfig& o, const Completion& c) {
  FORGE_CHECK(c.old_logps.size() == c.ids.size() && c.base_logps.size() == c.ids.size(), "a completion without its log-probabilities");
  double sum = 0;
  for (size_t t = 0; t < c.ids.size(); ++t) sum += kl_term(c.old_logps[t], c.base_logps[t], o.kl.estimator).value;
  return sum;
}

// A loss that is one of the whole sequence stands at every token; its gradient is then that of as many losses.
double copies(const PolicyRule& rule, size_t tokens) {
  return rule.ratio == PolicyRatio::token ? 1 : static_cast<double>(tokens);
}

PolicyLoss loss_of(const PolicyRule& rule, const PolicyStep& step, const Completion& c, const std::vector<double>& logps,
                   const std::vector<double>& old) {
  PolicyRule own = rule;
  if (rule.ratio == PolicyRatio::group) own.group_denominator = step.group_denominators.at(static_cast<size_t>(c.group));
  return policy_loss(logps, old, c.advantage, own);
}

}  // namespace

void give_advantages(const ObjectiveConfig& o, Rollout& rollout) {
  const bool costs = o.kl.weight > 0 && o.kl.in == KlPlace::reward;
  std::vector<CompletionReward> rewards;
  for (const Completion& c : rollout.completions) {
    std::optional<double> reward = c.reward;
    if (reward && costs) *reward -= o.kl.weight * divergence_of(o, c);
    rewards.push_back({c.group, reward, c.tokens()});
  }
  const Advantages made = make_advantages(rewards, {.baseline = o.advantage.baseline, .scale = o.advantage.scale});
  for (size_t i = 0; i < rollout.completions.size(); ++i) {
    rollout.completions[i].advantage = made.values[i];
    rollout.completions[i].counts = made.counts[i];
  }
  rollout.groups = made.groups;
  rollout.flat_groups = made.flat_groups;
  rollout.dropped_groups = made.dropped_groups;
}

int64_t steps_per_rollout(const ObjectiveConfig& o) { return o.updates_per_rollout * o.epochs_per_rollout; }

bool needs_old_logps(const ObjectiveConfig& o) {
  const bool ratio = o.policy != PolicyTerm::reinforce;
  return (ratio && (steps_per_rollout(o) > 1 || o.ratio == PolicyRatio::group)) ||
         (o.kl.weight > 0 && o.kl.in == KlPlace::reward);
}

PolicyStep policy_step(const ObjectiveConfig& o, int64_t max_new_tokens, const Rollout& rollout, int64_t update) {
  PolicyStep step;
  step.first = update == 0;
  const bool by_group = o.policy != PolicyTerm::reinforce && o.ratio == PolicyRatio::group;
  const bool same_policy = step.first || o.policy == PolicyTerm::reinforce;
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
    if (c.advantage != 0 || in_loss(o) || o.entropy_weight > 0) step.trained.push_back(i);
  }
  for (const auto& old : old_of_group) step.group_denominators.push_back(old.empty() ? 1 : group_denominator(old));
  step.divisor = step_divisor(o.mean, tokens, max_new_tokens);
  return step;
}

std::vector<double> known_cotangents(const ObjectiveConfig& o, const PolicyStep& step, const Completion& c) {
  const PolicyRule rule = rule_of(o);
  // Equal log-probabilities, whatever they are.
  const std::vector<double> any(c.ids.size());
  std::vector<double> cotangents = loss_of(rule, step, c, any, any).cotangent;
  const double weight = token_weight(o.mean, c.tokens()) * copies(rule, any.size()) / step.divisor;
  for (double& cotangent : cotangents) cotangent *= weight;
  return cotangents;
}

PolicyTokens policy_tokens(const ObjectiveConfig& o, const PolicyStep& step, const Completion& c,
                           const std::vector<double>& logps) {
  FORGE_CHECK(logps.size() == c.ids.size(), "log-probabilities of other tokens");
  const PolicyRule rule = rule_of(o);
  const bool by_group = rule.ratio == PolicyRatio::group;
  const bool has_old = !c.old_logps.empty();
  const std::vector<double> old = has_old && (!step.first || by_group) ? widened(c.old_logps) : logps;
  const PolicyLoss loss = loss_of(rule, step, c, logps, old);
  const double each = token_weight(o.mean, c.tokens()), many = copies(rule, logps.size());
  PolicyTokens result;
  result.entropy_cotangent = -o.entropy_weight * each / step.divisor;
  const auto note = [&](const char* name, double value) {
    Mean& mean = result.metrics[name];
    mean.sum += value;
    mean.count += 1;
  };
  const auto tokens = static_cast<double>(logps.size());
  for (size_t t = 0; t < logps.size(); ++t) {
    double cotangent = many * loss.cotangent[t], token_loss = loss.token_loss[t];
    if (!c.base_logps.empty()) {
      const KlTerm kl = kl_term(logps[t], c.base_logps[t], o.kl.estimator);
      note("kl", kl.value);
      if (in_loss(o)) {
        // The divergence of the policy that is trained, from tokens of the one that drew.
        const double ratio = std::exp(logps[t] - old[t]);
        token_loss += o.kl.weight * ratio * kl.value;
        cotangent += o.kl.weight * ratio * kl.cotangent;
      }
    }
    result.cotangents.push_back(cotangent * each / step.divisor);
    result.loss += token_loss * each;
    note("ratio", loss.ratio[t]);
    note("kl_old", old[t] - logps[t]);
  }
  result.metrics["clip_low_share"] = {static_cast<double>(loss.clipped_low), tokens};
  result.metrics["clip_high_share"] = {static_cast<double>(loss.clipped_high), tokens};
  result.metrics["dual_clip_share"] = {static_cast<double>(loss.clipped_dual), tokens};
  return result;
}

}  // namespace forge
