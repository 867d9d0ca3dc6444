#include "core/train/rollout_steps.h"

#include <algorithm>
#include <cmath>

#include "core/job/job.h"
#include "core/learn/rollout/rollout_metrics.h"
#include "core/lib/base/clock.h"
#include "core/lib/base/format.h"
#include "core/lib/base/text.h"
#include "core/lib/io/members.h"
#include "core/lib/tensor/device.h"
#include "core/train/head.h"
#include "core/train/other_networks.h"

namespace forge {
namespace {

// Returns the bound of the mean difference between the decoder's log-probabilities and the
// trainer's; a larger one is more than rounding.
double gap_bound(Precision precision) { return precision == Precision::fp32 ? 1e-3 : 0.1; }
constexpr int64_t kFlatRollouts = 5;  // in a row, before anybody is told

}  // namespace

RolloutSteps::RolloutSteps(Session& session, const DataSet& train, const DataSet* eval, RolloutPorts ports, StopFlag& stop)
    : session_(session),
      objective_(session.job.objective),
      policy_(objective_.as<PolicyConfig>()),
      config_(session.job.rollout),
      eval_(eval),
      ports_(std::move(ports)),
      stop_(stop),
      passes_(session, train, stop),
      source_(session, train, passes_, ports_, stop) {}

StepStats RolloutSteps::step(TrainState& state, int64_t divisor) {
  const auto start = Clock::now();
  const int64_t each = steps_per_rollout(policy_), number = state.step / each, update = state.step % each;
  const bool there = rollout_ && rollout_->number == number;
  source_.look_ahead(state, number, there ? number + 1 : number);
  if (!there) {
    FORGE_CHECK(update == 0, "a rollout that is partly trained is not there");
    rollout_ = source_.draw(state, number);
  }
  PolicyStep step = policy_step(objective_, config_.max_new_tokens, *rollout_, update);
  step.correction = correction_limit(config_);
  StepStats stats;
  stats.rests = session_.value && state.step < objective_.as<PpoConfig>().value.pretrain_steps;
  if (stats.rests) step.trained.clear();
  if (step.divisor == 0) {
    if (rollout_->groups > 0 && policy_.mask_truncated)
      throw Error(ErrorKind::diverged, "step " + std::to_string(state.step + 1) +
                                           ": every completion was cut at rollout.max_new_tokens, and "
                                           "objective.mask_truncated leaves none to train on")
          .hint("raise rollout.max_new_tokens");
    stats.skipped = true;  // nothing was scored: the weights stay
  }
  gap_sum_ = gap_most_ = gap_ratios_ = entropy_sum_ = 0;
  gap_tokens_ = 0;
  if (update == 0) stats.examples = rollout_->groups_drawn() + rollout_->discarded;
  begin_update(session_, state);
  const auto training = Clock::now();
  for_each_part(session_.world, passes_.batches(*rollout_, step.trained, divisor), stop_,
                [&](const std::vector<size_t>& which) { train_batch(step, which, state, stats); });
  for_each_part(session_.world, passes_.batches(*rollout_, step.valued, divisor), stop_,
                [&](const std::vector<size_t>& which) { train_value(step, which, state, stats); });
  if (step.divisor > 0) {
    stats.loss /= step.divisor;
    finish_update(session_, state, stats);
  }
  synchronize(session_.device);
  const double train_seconds = seconds_since(training);
  if (update == 0) {
    state.drawn = rollout_->drawn;
    stats.data_seconds = rollout_->score_seconds;
    record(state, train_seconds);
    watch(*rollout_);
  }
  stats.seconds = seconds_since(start);
  return stats;
}

void RolloutSteps::train_batch(const PolicyStep& step, const std::vector<size_t>& which, const TrainState& state,
                               StepStats& stats) {
  const Batch batch = passes_.batch_of(*rollout_, which);
  const BatchTensors tensors = passes_.tensors_of(batch);
  stats.tokens += batch.tokens();
  stats.supervised_tokens += batch.supervised_tokens();
  HeadTask task{.needs = policy_needs(config_.temperature),
                .loss_scale = state.loss_scale,
                .keeps_entropy = true,
                .pulls_entropy = policy_.entropy_weight > 0};
  const auto completion = [&](size_t i) -> const Completion& { return rollout_->completions[i]; };
  // Called once, with all log-probabilities of the micro-batch in the order of `which`.
  std::vector<double> logps;
  const auto judge = [&](const TokenOutputs& rows) {
    logps = host_doubles(rows.logp);
    RowCotangents cotangents;
    size_t begin = 0;
    for (const size_t i : which) {
      const size_t end = begin + completion(i).sampler_logps.size();
      const PolicyTokens tokens = policy_tokens(objective_, step, completion(i), {logps.begin() + static_cast<int64_t>(begin), logps.begin() + static_cast<int64_t>(end)});
      cotangents.logp.insert(cotangents.logp.end(), tokens.cotangents.begin(), tokens.cotangents.end());
      if (task.pulls_entropy) cotangents.entropy.resize(end, tokens.entropy_cotangent);
      stats.loss += tokens.loss;
      add(stats.metrics, tokens.metrics);
      stats.ratio_most = std::max(stats.ratio_most, tokens.ratio_most);
      begin = end;
    }
    return cotangents;
  };
  if (step.known)
    for (const size_t i : which)
      for (const double value : known_cotangents(objective_, step, completion(i))) task.known.push_back(value);
  task.from_rows = judge;
  const TokenOutputs rows = session_.network->rows_forward_backward(tensors, task);
  if (step.known) judge(rows);
  const std::vector<double> entropies = host_doubles(rows.entropy);
  double entropy = 0;
  for (const double value : entropies) entropy += value;
  add(stats.metrics, {{"entropy", {entropy, static_cast<double>(entropies.size())}}});
  if (policy_.entropy_weight > 0)
    for (size_t t = 0, k = 0; k < which.size(); ++k)
      for (size_t n = 0; n < completion(which[k]).sampler_logps.size(); ++n, ++t)
        stats.loss -= policy_.entropy_weight * token_weight(policy_.mean, completion(which[k]).tokens()) * entropies[t];
  if (!step.first) return;
  size_t row = 0;
  for (const size_t i : which)
    for (int64_t t = 0; t < completion(i).tokens(); ++t, ++row) {
      const auto at = static_cast<size_t>(t);
      const std::vector<float>& drawn = completion(i).drawn_logps;
      const double off = (drawn.empty() ? logps[row] : drawn[at]) - completion(i).sampler_logps[at], gap = std::abs(off);
      gap_sum_ += gap;
      gap_most_ = std::max(gap_most_, gap);
      gap_ratios_ += std::exp(off);
      ++gap_tokens_;
    }
  entropy_sum_ += entropy;
}

void RolloutSteps::train_value(const PolicyStep& step, const std::vector<size_t>& which, const TrainState& state, StepStats& stats) {
  const Batch batch = passes_.batch_of(*rollout_, which);
  const BatchTensors tensors = passes_.tensors_of(batch);
  if (stats.rests) stats.tokens += batch.tokens(), stats.supervised_tokens += batch.supervised_tokens();
  session_.value->forward_backward(tensors, state.loss_scale, [&](const std::vector<double>& values) {
    std::vector<double> cotangents;
    RolloutPasses::share_out(*rollout_, which, values, [&](Completion& c, const double* begin, const double* end) {
      const PolicyTokens tokens = value_tokens(objective_.as<PpoConfig>(), step, c, {begin, end});
      cotangents.insert(cotangents.end(), tokens.cotangents.begin(), tokens.cotangents.end());
      add(stats.metrics, tokens.metrics);
    });
    return cotangents;
  });
}

// --- events and warnings ---

// Returns the name of the weights that drew: a server's adapter, or the model's weights after so
// many steps.
std::string RolloutSteps::weights_name(const TrainState& state) const {
  const std::vector<Completion>& drawn = rollout_->completions;
  return drawn.empty() || drawn.front().adapter.empty() ? fmt::format("step-{:06}", state.step) : drawn.front().adapter;
}

void RolloutSteps::record(const TrainState& state, double train_seconds) const {
  Json event{{"event", "rollout"}, {"step", state.step + 1}, {"rollout", rollout_->number}};
  event.update(rollout_facts(rollout_->completions, session_.job.rewards));
  event.update({{"groups", rollout_->groups},
                {"flat_groups", rollout_->flat_groups},
                {"dropped_groups", rollout_->dropped_groups},
                {"rounds", rollout_->rounds},
                {"discarded_groups", rollout_->discarded},
                {"slots", rollout_->cost.slots},
                {"waves", session_.plan.rollout.waves},
                {"kv_bytes", rollout_->cost.cache_bytes},
                {"provider_version", weights_name(state)},
                {"advantage", advantage_facts(rollout_->completions)},
                {"sample_seconds", rollout_->cost.seconds},
                {"score_seconds", rollout_->score_seconds},
                {"old_seconds", rollout_->old_seconds},
                {"base_seconds", rollout_->base_seconds},
                {"train_seconds", train_seconds}});
  if (config_.lookup_tokens > 0)
    event.update({{"lookup_guessed", rollout_->cost.guessed}, {"lookup_right", rollout_->cost.guessed_right}});
  if (config_.server.max_staleness > 0)
    event.update({{"staleness", rollout_->staleness}, {"wait_seconds", rollout_->cost.wait_seconds}});
  if (const auto limit = correction_limit(config_)) event.update(correction_facts(rollout_->completions, *limit));
  if (session_.value) event.update(value_facts(rollout_->completions));
  if (!config_.tools.command.empty()) event.update(turn_facts(rollout_->completions));
  int64_t drawn_tokens = 0;
  for (const Completion& c : rollout_->completions) drawn_tokens += c.tokens();
  event["sample_tokens_per_second"] = static_cast<double>(drawn_tokens) / std::max(1e-9, rollout_->cost.seconds);
  const auto tokens = static_cast<double>(gap_tokens_);
  event["sampler_gap"] = gap_tokens_ > 0 ? Json(gap_sum_ / tokens) : Json(nullptr);
  event["sampler_gap_most"] = gap_tokens_ > 0 ? Json(gap_most_) : Json(nullptr);
  event["sampler_ratio"] = gap_tokens_ > 0 ? Json(gap_ratios_ / tokens) : Json(nullptr);
  event["entropy"] = gap_tokens_ > 0 ? Json(entropy_sum_ / tokens) : Json(nullptr);
  ports_.record(std::move(event));
}

void RolloutSteps::watch(const Rollout& rollout) {
  for (const std::string& warning : rollout_warnings(rollout, config_)) ports_.warn(warning);
  const bool flat = rollout.groups > 0 && rollout.flat_groups == rollout.groups;
  flat_in_a_row_ = flat ? flat_in_a_row_ + 1 : 0;
  if (flat_in_a_row_ == kFlatRollouts) {
    const double reward = rollout.completions.front().reward.value_or(0);
    ports_.warn("in " + std::to_string(kFlatRollouts) +
                " rollouts in a row every group's completions had equal rewards, so nothing is learnt: " +
                (reward <= 0 ? "none is right; the task may be too hard, or a reward does not find the answer (forge rollouts)"
                             : "all are equally right; the task may be learnt already"));
  }
  const double bound = gap_bound(*session_.job.train.precision);
  if (gap_told_ || gap_tokens_ == 0 || gap_sum_ / static_cast<double>(gap_tokens_) <= bound) return;
  gap_told_ = true;
  ports_.warn("the policy that drew the completions and the one in training differ by " +
              format_number(gap_sum_ / static_cast<double>(gap_tokens_)) + " a token in log-probability, expected at most " +
              format_number(bound) + ": try train.precision: fp32 or provider: reference to see whether this is rounding");
}

Evaluation RolloutSteps::evaluate(const TrainState& state, int64_t) {
  DrawCost cost;
  const std::vector<Completion> completions = source_.greedy(*eval_, std::min(session_.job.eval.prompts, eval_->size()), state.step, cost);
  Evaluation result;
  const Json facts = rollout_facts(completions, session_.job.rewards);
  result.loss = facts["reward"].is_null() ? std::nan("") : -facts["reward"].get<double>();  // nothing was scored
  int64_t tokens = 0;
  for (const Completion& c : completions) tokens += c.tokens();
  result.event = {{"tokens", tokens}, {"seconds", cost.seconds}};
  for (const char* key : {"reward", "reward_std", "rewards", "unscored", "completions", "completion_tokens", "truncated_share", "distinct_2"})
    result.event["eval_" + std::string(key)] = facts[key];
  return result;
}

Json RolloutSteps::samples(const TrainState& state) {
  const int64_t each = steps_per_rollout(policy_);
  return rollout_samples(ports_.run_folder, (state.step + each - 1) / each);
}

// --- checkpoints ---

CheckpointRollouts RolloutSteps::pending(const TrainState& state) const {
  CheckpointRollouts pending{.ahead = source_.ahead(state)};
  const int64_t each = steps_per_rollout(policy_);
  if (state.step % each == 0) return pending;
  FORGE_CHECK(rollout_ && rollout_->number == state.step / each, "the rollout that is being trained is not there");
  pending.partly_trained = *rollout_;
  return pending;
}

void RolloutSteps::restore(const CheckpointRollouts& pending, const std::string& path) {
  const auto reading = [&](const char* file, const auto& read) {
    try {
      read();
    } catch (const MemberFault& fault) {
      throw Error(ErrorKind::environment, fault.at(path + "/" + file)).hint("delete its checkpoint to continue from the one before it");
    }
  };
  if (!pending.partly_trained.is_null()) reading("rollout.json", [&] { rollout_ = pending.partly_trained.get<Rollout>(); });
  reading("ahead.json", [&] { source_.restore_ahead(pending.ahead); });
}

}  // namespace forge
