#include "core/plan/fit/fit.h"

#include <algorithm>

#include "core/lib/base/text.h"
#include "core/plan/fit/offload.h"
#include "core/plan/fit/remedy.h"

namespace forge {
namespace {

constexpr int64_t kMostExamples = int64_t{1} << 24;  // the largest train.micro_batch_size

int64_t available_bytes(const Fitted& plan, const Profile& profile) {
  const int64_t taken = profile.reserve_bytes.value + (plan.device.cuda ? allocator_slack(plan.device.free_bytes()) : 0);
  const int64_t free = std::max<int64_t>(0, plan.device.free_bytes() - taken);
  return plan.job.hardware.memory_limit ? std::min(free, *plan.job.hardware.memory_limit) : free;
}

std::string room_text(const Fitted& plan) {
  return format_bytes(plan.predicted_peak_bytes) + " of " + format_bytes(plan.available_bytes);
}

void explain_choice(Fitted& plan, const Search& search, const Profile& profile, bool first) {
  const TrainConfig& train = plan.job.train;
  const std::string knee = format_count(search.knee);
  if (!search.fixed_checkpointing) {
    const std::string cost = *train.activation_checkpointing == Checkpointing::none
                                 ? "nothing needs to be computed again: "
                                 : "computes again " + describe(plan.step.recompute) + ": ";
    plan.origins["train.activation_checkpointing"] = derived(cost + room_text(plan));
  }
  const std::string key = plan.job.data.packing ? "train.micro_batch_tokens" : "train.micro_batch_size";
  const std::string other = plan.job.data.packing ? "train.micro_batch_size" : "train.micro_batch_tokens";
  if (!search.fixed_batch)
    plan.origins[key] = derived(first ? "the knee of throughput, " + knee + " tokens: " + profile.micro_batch_tokens.reason
                  : "the most that fits below the knee of " + knee + " tokens: " + room_text(plan));
  if (plan.origins.count(other) == 0 || plan.origins[other].kind == OriginKind::unset)
    plan.origins[other] = derived(plan.job.data.packing ? "roughly this many examples; with packing, tokens decide"
                                  : "examples of at most " + format_count(longest_of(plan)) + " tokens");
}

// Completes the other limit of a fixed micro-batch: one given in examples still packs into a budget
// of tokens, and the other way round.
void complete_fixed_batch(Fitted& plan) {
  TrainConfig& train = plan.job.train;
  if (train.micro_batch_size && !train.micro_batch_tokens) {
    train.micro_batch_tokens = *train.micro_batch_size * longest_of(plan);
    plan.origins["train.micro_batch_tokens"] = derived(format_count(*train.micro_batch_size) + " examples of at most " + format_count(longest_of(plan)) +
                " tokens");
  } else if (!train.micro_batch_size) {
    const int64_t tokens = *train.micro_batch_tokens;
    set_micro_batch(plan, tokens);
    train.micro_batch_tokens = tokens;
    // Without packing both limits hold, so the one that was not asked for must never be reached
    // first.
    if (!plan.job.data.packing)
      train.micro_batch_size = train.global_batch_tokens ? std::min(tokens, kMostExamples)
                                                         : std::min(tokens, *train.global_batch_size);
    plan.origins["train.micro_batch_size"] = derived(plan.job.data.packing ? "roughly this many examples; with packing, tokens decide"
                                  : "as many examples in order as train.micro_batch_tokens holds");
  }
}

}  // namespace

Fitted plan_memory(const Schedule& schedule, const Profile& profile, const Provider& provider, const Provider* plain, const ExampleCounts& counts) {
  Fitted plan{schedule};
  TrainConfig& train = plan.job.train;
  plan.available_bytes = available_bytes(plan, profile);
  const Search search{
      &counts,
      &provider,
      plain,
      profile.micro_batch_tokens.value,
      profile.smallest_micro_batch_tokens.value,
      train.micro_batch_size || train.micro_batch_tokens,
      train.activation_checkpointing && *train.activation_checkpointing != Checkpointing::chosen,
      train.activation_offloading.has_value(),
      plan.job.optimizer.offload.has_value()};
  if (search.fixed_batch) complete_fixed_batch(plan);
  require_offload(plan);
  const Fitted asked = plan;
  if (!fits(plan, search)) refuse(asked, plan, search);
  const int64_t knee = sizes(plan, search.knee, search.knee).front();
  explain_choice(plan, search, profile, search.fixed_batch || knee <= *train.micro_batch_tokens);
  explain_offload(plan, search.fixed_offloading, search.fixed_offload);
  plan.parameters = count_parameters(parameters_of(plan));
  plan.targets = target_matches(plan.model, plan.job.adapter);
  return plan;
}

}  // namespace forge
