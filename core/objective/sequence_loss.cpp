#include "core/objective/sequence_loss.h"

#include "core/base/error.h"

namespace forge {
namespace {

void add_metrics(MetricSums& sums, const Objective& row, const ObjectiveConfig& objective, const SequenceSums& chosen,
                 const SequenceSums& rejected) {
  const double better = row.reward(objective, chosen), worse = row.reward(objective, rejected);
  sums["reward_chosen"] += better;
  sums["reward_rejected"] += worse;
  sums["reward_margin"] += better - worse;
  sums["reward_accuracy"] += better > worse ? 1 : better == worse ? 0.5 : 0;
  sums["logp_chosen"] += chosen.logp;
  sums["logp_rejected"] += rejected.logp;
  sums["nll"] -= chosen.mean();
  if (!row.has_reference) return;
  sums["logp_chosen_change"] += chosen.ratio();
  sums["logp_rejected_change"] += rejected.ratio();
}

}  // namespace

SequenceLoss sequence_loss(const ObjectiveConfig& objective, const std::vector<SequenceSums>& answers, double divisor) {
  const Objective& row = objective_of(objective.type);
  FORGE_CHECK(row.pair && answers.size() % 2 == 0, "answers come in pairs, found " << answers.size());
  SequenceLoss result;
  result.cotangents.resize(answers.size());
  for (size_t i = 0; i < answers.size(); i += 2) {
    const SequenceSums &chosen = answers[i], &rejected = answers[i + 1];
    FORGE_CHECK(chosen.tokens > 0 && rejected.tokens > 0, "an answer without tokens");
    const PairLoss pair = row.pair(objective, chosen, rejected);
    const double likelihood = *objective.nll_weight / static_cast<double>(chosen.tokens);
    result.loss += pair.loss - likelihood * chosen.logp;
    result.cotangents[i] = (pair.d_chosen - likelihood) / divisor;
    result.cotangents[i + 1] = pair.d_rejected / divisor;
    add_metrics(result.metrics, row, objective, chosen, rejected);
  }
  return result;
}

void add(MetricSums& sums, const MetricSums& more) {
  for (const auto& [name, value] : more) sums[name] += value;
}

}  // namespace forge
