#include "core/plan/stages/batching.h"

#include <algorithm>

#include "core/job/names.h"
#include "core/learn/objective/objective.h"
#include "core/lib/base/ceil_div.h"
#include "core/lib/base/key_error.h"
#include "core/model/families/trained_layout.h"

namespace forge {
namespace {

int64_t mean_length(const DataSummary& data) {
  return std::max<int64_t>(1, ceil_div(data.tokens, std::max<int64_t>(1, data.examples)));
}

Settled<int64_t> global_batch_size_of(const Setup& plan) {
  const TrainConfig& train = plan.job.train;
  if (train.global_batch_size) return {*train.global_batch_size};
  if (draws_completions(plan.job.objective.type())) {
    const RolloutConfig& rollout = plan.job.rollout;
    return {ceil_div(rollout.prompts_per_step * rollout.samples_per_prompt, plan.job.objective.as<PolicyConfig>().updates_per_rollout),
            derived("completions of a rollout, over objective.updates_per_rollout")};
  }
  if (train.global_batch_tokens)
    return {std::max<int64_t>(1, *train.global_batch_tokens / mean_length(plan.train)), derived("about as many examples as global_batch_tokens holds")};
  return {32, by_default("32 examples a step")};
}

Settled<ReferenceModel> reference_of(const Referenced& objective, const AdapterConfig& adapter) {
  const auto start = [](const std::string& reason) { return Settled<ReferenceModel>{ReferenceModel::start, derived(reason)}; };
  if (adapter.type == AdapterType::none) return start("every weight is trained, so the base is the model as training begins");
  if (changes_base(adapter))
    return start(name_of(adapter.init) + " takes its factors out of the base, so the base is the model as training begins");
  if (objective.reference) return {*objective.reference};
  if (adapter.use_dora)
    return start("dora's magnitudes give the base back only up to rounding, and the model as training begins gives exactly zero");
  if (adapter.init_from) return start("adapter.init_from continues an adapter; the base would be the model before it");
  return {ReferenceModel::base, derived("the model without the adapter, which is the model as training begins")};
}

Settled<bool> reference_cache_of(const Referenced& objective, bool kto, const TrainConfig& train) {
  const bool moves = objective.reference == ReferenceModel::start;
  if (objective.reference_cache == false && moves)
    throw KeyError(ErrorKind::job, "objective.reference_cache",
                   "the reference is the model as training begins, which only the cache keeps", "set it to true, or auto");
  // kto's mismatched answers follow the steps, so caching them requires a known number of steps.
  const bool open = kto && train.max_time && !train.epochs && !train.max_steps && !train.max_tokens;
  if (open && (moves || objective.reference_cache.value_or(false)))
    throw KeyError(ErrorKind::job, "objective.reference_cache",
                   "kto keeps the reference for all steps before the first, and only train.max_time ends this run",
                   "set train.epochs or train.max_steps");
  if (objective.reference_cache) return {*objective.reference_cache};
  const bool again = train.epochs.value_or(1) > 1 && !open;
  return {moves || again, derived(moves   ? "training moves the weights that the reference is made of"
                                  : again ? "the data are read more than once: the reference would be computed in each epoch"
                                          : "the data are read once: a reference computed with each step costs no more")};
}

void require_both_classes(const Setup& plan) {
  const PairCounts& pairs = plan.train.pairs;
  if (pairs.desirable > 0 && pairs.undesirable > 0) return;
  throw KeyError(ErrorKind::data, "data.train",
                 std::string("holds no ") + (pairs.desirable > 0 ? "undesirable" : "desirable") +
                     " answer, and kto learns the difference: expected both",
                 "add rows with label: " + std::string(pairs.desirable > 0 ? "false" : "true"));
}

// Settles the values that a job leaves to its objective: weights, the reference and its cost, the
// learning rate. The limits are settled before.
void settle_objective(Batching& plan) {
  ObjectiveConfig& objective = plan.job.objective;
  const Objective& row = objective_of(objective.type());
  const std::string whose = "of " + name_of(objective.type());
  const auto* beta = objective.find<Preferring>();
  const auto* beside = objective.find<LikelihoodBeside>();
  if (beta && !beta->beta) plan.origins["objective.beta"] = by_default(whose);
  if (beside && !beside->nll_weight) plan.origins["objective.nll_weight"] = by_default(whose);
  objective = with_defaults(objective);
  if (row.coupling == Coupling::answer) require_both_classes(plan);
  if (auto* referenced = objective.find<Referenced>()) {
    plan.settle("objective.reference", referenced->reference, reference_of(*referenced, plan.job.adapter));
    plan.settle("objective.reference_cache", referenced->reference_cache,
                reference_cache_of(*referenced, row.coupling == Coupling::answer, plan.job.train));
  }
  if (row.scores && plan.job.eval.samples > 0)
    plan.settle("eval.samples", plan.job.eval.samples, Settled<int64_t>{0, derived("a reward model writes no answers")});
  const auto rate = plan.origins.find("optimizer.learning_rate");
  const bool open = rate == plan.origins.end() || rate->second.kind == OriginKind::unset;
  const bool full = plan.job.adapter.type == AdapterType::none;
  const double own = full ? row.full_learning_rate : row.adapter_learning_rate;
  if (open && own != 0)
    plan.settle("optimizer.learning_rate", plan.job.optimizer.learning_rate,
                Settled{own, std::optional(by_default(whose + (full ? " for all weights" : " for an adapter")))});
}

}  // namespace

Batching plan_batching(const Compute& compute) {
  Batching plan{compute};
  TrainConfig& train = plan.job.train;
  if (!train.epochs && !train.max_steps && !train.max_tokens && !train.max_time)
    plan.settle("train.epochs", train.epochs, Settled<double>{1, by_default("1 unless another limit is set")});
  settle_objective(plan);
  plan.settle("train.global_batch_size", train.global_batch_size, global_batch_size_of(plan));
  OptimizerConfig& optimizer = plan.job.optimizer;
  const std::string type = name_of(optimizer.type);
  if (!optimizer.betas)
    plan.settle("optimizer.betas", optimizer.betas, Settled<std::vector<double>>{default_betas(optimizer.type), by_default("those of " + type)});
  if (!optimizer.momentum && default_momentum(optimizer.type) > 0)
    plan.settle("optimizer.momentum", optimizer.momentum, Settled<double>{default_momentum(optimizer.type), by_default("that of " + type)});
  return plan;
}

double class_ratio(const Setup& plan) {
  const auto& objective = plan.job.objective.as<KtoConfig>();
  return static_cast<double>(plan.train.pairs.desirable) * objective.desirable_weight /
         (static_cast<double>(plan.train.pairs.undesirable) * objective.undesirable_weight);
}

}  // namespace forge
