#include "core/learn/objective/sequence_loss.h"

#include "core/lib/base/error.h"

namespace forge {
namespace {

// Adds the metrics of one answer, with the name of its side.
void add_answer(Metrics& sums, const Objective& row, const ObjectiveConfig& objective, const SequenceSums& answer,
                const std::string& side) {
  sums["reward_" + side].add(row.reward(objective, answer));
  if (row.scores) return;
  sums["logp_" + side].add(answer.logp);
  if (row.has_reference) sums["logp_" + side + "_change"].add(answer.ratio());
}

void add_pair(Metrics& sums, const Objective& row, const ObjectiveConfig& objective, const SequenceSums& chosen,
              const SequenceSums& rejected) {
  const double better = row.reward(objective, chosen), worse = row.reward(objective, rejected);
  add_answer(sums, row, objective, chosen, "chosen");
  add_answer(sums, row, objective, rejected, "rejected");
  sums["reward_margin"].add(better - worse);
  sums["reward_accuracy"].add(better > worse ? 1 : better == worse ? 0.5 : 0);
  if (!row.scores) sums["nll"].add(-chosen.mean());
}

void add_pairs(SequenceLoss& result, const Objective& row, const ObjectiveConfig& objective,
               const std::vector<SequenceSums>& answers, const StepScale& scale) {
  FORGE_CHECK(answers.size() % 2 == 0, "answers come in pairs, found " << answers.size());
  for (size_t i = 0; i < answers.size(); i += 2) {
    const SequenceSums &chosen = answers[i], &rejected = answers[i + 1];
    FORGE_CHECK(chosen.tokens > 0 && rejected.tokens > 0, "an answer without tokens");
    const PairLoss pair = row.pair(objective, chosen, rejected);
    const auto& beside = objective.as<LikelihoodBeside>();
    const double tokens = beside.nll_mean == NllMean::token ? scale.chosen_tokens / scale.divisor
                                                               : static_cast<double>(chosen.tokens + chosen.other_tokens);
    const double weight = beside.nll_weight.value_or(0);
    const double likelihood = weight == 0 ? 0 : weight / tokens;
    result.loss += pair.loss - likelihood * (chosen.logp + chosen.other_logp);
    result.other_cotangents[i] = -likelihood / scale.divisor;
    result.cotangents[i] = (pair.d_chosen - likelihood) / scale.divisor;
    result.cotangents[i + 1] = pair.d_rejected / scale.divisor;
    add_pair(result.metrics, row, objective, chosen, rejected);
  }
}

void add_answers(SequenceLoss& result, const Objective& row, const ObjectiveConfig& objective,
                 const std::vector<SequenceSums>& answers, const StepScale& scale) {
  for (size_t i = 0; i < answers.size(); ++i) {
    const SequenceSums& answer = answers[i];
    FORGE_CHECK(answer.tokens > 0, "an answer without tokens");
    const AnswerLoss one = row.answer(objective, answer, scale.divergence);
    result.loss += one.loss;
    result.cotangents[i] = one.d_answer / scale.divisor;
    add_answer(result.metrics, row, objective, answer, answer.desirable ? "chosen" : "rejected");
    result.metrics["reward_accuracy"].add((answer.ratio() > scale.divergence) == answer.desirable);
    result.metrics["kl"].add(scale.divergence);
  }
}

}  // namespace

SequenceLoss sequence_loss(const ObjectiveConfig& objective, const std::vector<SequenceSums>& answers, const StepScale& scale) {
  const Objective& row = objective_of(objective.type());
  SequenceLoss result;
  result.cotangents.resize(answers.size());
  result.other_cotangents.resize(answers.size());
  (row.coupling == Coupling::pair ? add_pairs : add_answers)(result, row, objective, answers, scale);
  return result;
}

void add(Metrics& sums, const Metrics& more) {
  for (const auto& [name, mean] : more) {
    sums[name].sum += mean.sum;
    sums[name].count += mean.count;
  }
}

std::map<std::string, double> means_of(const Metrics& metrics) {
  std::map<std::string, double> means;
  for (const auto& [name, mean] : metrics)
    if (mean.count > 0) means[name] = mean.sum / mean.count;
  if (means.count("reward_chosen") && means.count("reward_rejected"))
    means.emplace("reward_margin", means["reward_chosen"] - means["reward_rejected"]);
  return means;
}

}  // namespace forge
