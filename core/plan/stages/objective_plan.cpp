#include "core/plan/stages/objective_plan.h"

#include "core/job/names.h"
#include "core/learn/objective/objective.h"
#include "core/lib/base/key_error.h"

namespace forge {
namespace {

void resolve_reference(Batching& plan) {
  ObjectiveConfig& objective = plan.job.objective;
  const AdapterConfig& adapter = plan.job.adapter;
  const auto start = [&](const std::string& reason) {
    objective.reference = ReferenceModel::start;
    derived(plan.origins, "objective.reference", reason);
  };
  if (adapter.type == AdapterType::none)
    start("every weight is trained, so the base is the model as training begins");
  else if (changes_base(adapter))
    start(name_of(adapter.init) + " takes its factors out of the base, so the base is the model as training begins");
  else if (!objective.reference && adapter.use_dora)
    start("dora's magnitudes give the base back only up to rounding, and the model as training begins gives exactly zero");
  else if (!objective.reference && adapter.init_from)
    start("adapter.init_from continues an adapter; the base would be the model before it");
  else if (!objective.reference) {
    objective.reference = ReferenceModel::base;
    derived(plan.origins, "objective.reference", "the model without the adapter, which is the model as training begins");
  }
  const bool moves = objective.reference == ReferenceModel::start;
  if (objective.reference_cache == false && moves)
    throw KeyError(ErrorKind::job, "objective.reference_cache",
                   "the reference is the model as training begins, which only the cache keeps", "set it to true, or auto");
  // kto's mismatched answers follow the steps, so caching them requires a known number of steps.
  const TrainConfig& train = plan.job.train;
  const bool open = objective.type == ObjectiveType::kto && train.max_time && !train.epochs && !train.max_steps && !train.max_tokens;
  if (open && (moves || objective.reference_cache.value_or(false)))
    throw KeyError(ErrorKind::job, "objective.reference_cache",
                   "kto keeps the reference for all steps before the first, and only train.max_time ends this run",
                   "set train.epochs or train.max_steps");
  if (objective.reference_cache) return;
  const bool again = plan.job.train.epochs.value_or(1) > 1 && !open;
  objective.reference_cache = moves || again;
  derived(plan.origins, "objective.reference_cache",
          moves   ? "training moves the weights that the reference is made of"
          : again ? "the data are read more than once: the reference would be computed in each epoch"
                  : "the data are read once: a reference computed with each step costs no more");
}

void require_both_classes(const Setup& plan) {
  const PairCounts& pairs = plan.train.pairs;
  if (pairs.desirable > 0 && pairs.undesirable > 0) return;
  throw KeyError(ErrorKind::data, "data.train",
                 std::string("holds no ") + (pairs.desirable > 0 ? "undesirable" : "desirable") +
                     " answer, and kto learns the difference: expected both",
                 "add rows with label: " + std::string(pairs.desirable > 0 ? "false" : "true"));
}

}  // namespace

void resolve_objective(Batching& plan) {
  ObjectiveConfig& objective = plan.job.objective;
  const Objective& row = objective_of(objective.type);
  const std::string whose = "of " + name_of(objective.type);
  if (row.beta > 0 && !objective.beta) plan.origins["objective.beta"] = {OriginKind::unset, "default", whose};
  if (row.coupling == Coupling::pair && !row.scores && !objective.nll_weight) plan.origins["objective.nll_weight"] = {OriginKind::unset, "default", whose};
  objective = with_defaults(objective);
  if (row.coupling == Coupling::answer) require_both_classes(plan);
  if (row.has_reference) resolve_reference(plan);
  if (row.scores && plan.job.eval.samples > 0) {
    plan.job.eval.samples = 0;
    derived(plan.origins, "eval.samples", "a reward model writes no answers");
  }
  const auto rate = plan.origins.find("optimizer.learning_rate");
  const bool open = rate == plan.origins.end() || rate->second.kind == OriginKind::unset;
  const bool full = plan.job.adapter.type == AdapterType::none;
  const double own = full ? row.full_learning_rate : row.adapter_learning_rate;
  if (!open || own == 0) return;
  plan.job.optimizer.learning_rate = own;
  plan.origins["optimizer.learning_rate"] = {OriginKind::unset, "default", whose + (full ? " for all weights" : " for an adapter")};
}

double class_ratio(const Setup& plan) {
  const ObjectiveConfig& objective = plan.job.objective;
  return static_cast<double>(plan.train.pairs.desirable) * objective.desirable_weight /
         (static_cast<double>(plan.train.pairs.undesirable) * objective.undesirable_weight);
}

}  // namespace forge
