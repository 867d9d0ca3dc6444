#include "core/plan/fit/fit.h"

#include <algorithm>

#include "core/lib/base/text.h"
#include "core/plan/fit/offload.h"
#include "core/plan/fit/search.h"
#include "core/plan/stages/inventory.h"

namespace forge {
namespace {

constexpr int64_t kMostExamples = int64_t{1} << 24;  // the largest train.micro_batch_size

int64_t available_bytes(const Setup& plan, const Profile& profile) {
  const int64_t taken = profile.reserve_bytes.value + (plan.device.cuda ? allocator_slack(plan.device.free_bytes()) : 0);
  const int64_t free = std::max<int64_t>(0, plan.device.free_bytes() - taken);
  return plan.job.hardware.memory_limit ? std::min(free, *plan.job.hardware.memory_limit) : free;
}

std::string room_text(const Fitted& plan) {
  return format_bytes(plan.predicted_peak_bytes) + " of " + format_bytes(plan.available_bytes);
}

// Returns the origins of micro-batch and recomputation, where the plan decided them. `at_knee`:
// the micro-batch is at the knee of throughput.
Origins choice_origins(const Fitted& plan, const Search& search, const Profile& profile, bool at_knee) {
  Origins origins;
  const TrainConfig& train = plan.job.train;
  const std::string knee = format_count(search.knee);
  if (!search.fixed_checkpointing) {
    const std::string cost = *train.activation_checkpointing == Checkpointing::none
                                 ? "nothing needs to be computed again: "
                                 : "computes again " + describe(plan.step.recompute) + ": ";
    origins["train.activation_checkpointing"] = derived(cost + room_text(plan));
  }
  const std::string key = plan.job.data.packing ? "train.micro_batch_tokens" : "train.micro_batch_size";
  const std::string other = plan.job.data.packing ? "train.micro_batch_size" : "train.micro_batch_tokens";
  if (!search.fixed_batch)
    origins[key] = derived(at_knee ? "the knee of throughput, " + knee + " tokens: " + profile.micro_batch_tokens.reason
                                   : "the most that fits below the knee of " + knee + " tokens: " + room_text(plan));
  const auto before = plan.origins.find(other);
  if (before == plan.origins.end() || before->second.kind == OriginKind::unset)
    origins[other] = derived(plan.job.data.packing ? "roughly this many examples; with packing, tokens decide"
                                                   : "examples of at most " + format_count(longest_of(plan)) + " tokens");
  return origins;
}

// Returns the plan with the other limit of a fixed micro-batch: one given in examples still packs
// into a budget of tokens, and the other way round.
Schedule with_whole_batch(Schedule plan) {
  TrainConfig& train = plan.job.train;
  if (train.micro_batch_size && !train.micro_batch_tokens) {
    train.micro_batch_tokens = *train.micro_batch_size * longest_of(plan);
    plan.origins["train.micro_batch_tokens"] =
        derived(format_count(*train.micro_batch_size) + " examples of at most " + format_count(longest_of(plan)) + " tokens");
  } else if (train.micro_batch_tokens && !train.micro_batch_size) {
    const int64_t tokens = *train.micro_batch_tokens;
    // Without packing both limits hold, so the one that was not asked for must never be reached
    // first.
    train.micro_batch_size = plan.job.data.packing        ? micro_batch_of(plan, tokens).examples
                             : train.global_batch_tokens ? std::min(tokens, kMostExamples)
                                                         : std::min(tokens, *train.global_batch_size);
    plan.origins["train.micro_batch_size"] = derived(plan.job.data.packing ? "roughly this many examples; with packing, tokens decide"
                                                                           : "as many examples in order as train.micro_batch_tokens holds");
  }
  return plan;
}

// Returns the plan with the sizes and choices of a try.
Fitted with_trial(const Schedule& plan, const Trial& trial, int64_t available_bytes) {
  Fitted fitted{plan, trial};
  TrainConfig& train = fitted.job.train;
  train.micro_batch_tokens = trial.micro_batch.tokens;
  train.micro_batch_size = trial.micro_batch.examples;
  train.activation_checkpointing = trial.checkpointing;
  train.activation_offloading = trial.activations;
  fitted.job.optimizer.offload = trial.state;
  fitted.step = trial.step;
  fitted.parameters = count_parameters(parameters_of(plan));
  fitted.targets = target_matches(plan.model, plan.job.adapter);
  fitted.available_bytes = available_bytes;
  return fitted;
}

}  // namespace

Fitted plan_memory(const Schedule& schedule, const Profile& profile, const Provider& provider, const Provider* plain, const ExampleCounts& counts) {
  const TrainConfig& train = schedule.job.train;
  const Search search{
      &counts,
      &provider,
      plain,
      available_bytes(schedule, profile),
      profile.micro_batch_tokens.value,
      profile.smallest_micro_batch_tokens.value,
      train.micro_batch_size || train.micro_batch_tokens,
      train.activation_checkpointing && *train.activation_checkpointing != Checkpointing::chosen,
      train.activation_offloading.has_value(),
      schedule.job.optimizer.offload.has_value()};
  const Schedule asked = with_whole_batch(schedule);
  require_offload(asked);
  const SearchResult found = find_fit(asked, search);
  if (!found.fits) refuse(asked, found.trial, search);
  Fitted plan = with_trial(asked, found.trial, search.available_bytes);
  const int64_t knee = sizes(plan, search.knee, search.knee).front();
  const bool at_knee = search.fixed_batch || knee <= found.trial.micro_batch.tokens;
  for (const Origins& origins : {choice_origins(plan, search, profile, at_knee), offload_origins(plan, search.fixed_offloading, search.fixed_offload)})
    for (const auto& [key, origin] : origins) plan.origins[key] = origin;
  return plan;
}

}  // namespace forge
