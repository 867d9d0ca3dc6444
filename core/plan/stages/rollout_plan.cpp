#include "core/plan/stages/rollout_plan.h"

#include <algorithm>

#include "core/job/names.h"
#include "core/job/job.h"
#include "core/learn/objective/objective.h"
#include "core/lib/base/key_error.h"
#include "core/lib/base/text.h"
#include "core/plan/stages/inventory.h"

namespace forge {
namespace {

constexpr int64_t kEnoughAtOnce = 64;      // completions: products of more rows are hardly faster on a CPU
constexpr int64_t kPromptTokens = 2048;    // tokens read at once, but at least the longest prompt
constexpr double kCacheShare = 0.25;       // share of the memory for generation

DecodingShape decoding_shape(const Rollouts& plan, int64_t slots, bool evaluation) {
  const RolloutConfig& rollout = plan.job.rollout;
  const DataSummary& data = evaluation ? plan.eval : plan.train;
  DecodingShape shape{.prompt_tokens = plan.rollout.prompt_tokens,
                      .longest_prompt = std::max<int64_t>(1, data.longest),
                      .max_new_tokens = rollout.max_new_tokens,
                      .slots = slots,
                      .group = evaluation ? 1 : rollout.samples_per_prompt};
  if (!rollout.tools.command.empty()) {  // a later turn reads all before it, each completion its own
    shape.longest_prompt = std::min(plan.job.data.max_length, shape.longest_prompt + rollout.max_new_tokens);
    shape.group = 1;
  }
  return shape;
}

// Returns the words for the adapter that a rollout is drawn with.
std::string moment_of(const ServerConfig& server) {
  if (server.max_staleness == 0) return "that moment";
  const std::string before = format_count(server.max_staleness) + (server.max_staleness == 1 ? " rollout" : " rollouts");
  return before + " before, while those between are trained: the run waits for the longer of drawing and training, not for both";
}

bool served(const Setup& plan) { return plan.job.rollout.provider == RolloutProvider::http; }

// Throws KeyError(job) for stop texts of several tokens: servers look for single tokens.
void require_single_tokens(const Rollouts& plan) {
  for (size_t i = 0; i < plan.rollout.stop_sequences.size(); ++i)
    if (plan.rollout.stop_sequences[i].size() != 1)
      throw KeyError(ErrorKind::job, "rollout.stop",
                     "\"" + plan.job.rollout.stop.at(i) + "\" is " + format_count(static_cast<int64_t>(plan.rollout.stop_sequences[i].size())) +
                         " tokens of the model, and a server stops at one",
                     "name texts of one token, or write rollout.provider: here");
}

int64_t completions(const RolloutConfig& rollout) { return rollout.prompts_per_step * rollout.samples_per_prompt; }

// Returns the completions that are drawn at once: whole groups, unless a server decides.
Settled<int64_t> slots_of(const Rollouts& plan, const Provider& provider) {
  const RolloutConfig& rollout = plan.job.rollout;
  const int64_t group = rollout.samples_per_prompt, all = completions(rollout);
  if (served(plan)) return {all};
  if (rollout.slots) return {std::min(*rollout.slots / group * group, all)};
  int64_t groups = std::clamp<int64_t>(kEnoughAtOnce / group, 1, rollout.prompts_per_step);
  ActivationShape shape = model_shape(plan);
  shape.lists = own_inventory(plan).lists;
  shape.threads = plan.device.cuda ? 0 : *plan.job.train.threads;
  shape.training = false;
  const auto bytes = [&] { return total_bytes(provider.decoding_lines(shape, decoding_shape(plan, groups * group, false))); };
  const auto room = static_cast<int64_t>(kCacheShare * static_cast<double>(plan.device.free_bytes()));
  while (groups > 1 && bytes() > room) --groups;
  return {groups * group, derived(format_count(groups) + (groups == 1 ? " group" : " groups") + " of " + format_count(group) + " in " +
                                  format_bytes(bytes()))};
}

// Returns the texts that end a completion, and the tokens of prompts that are read at once.
RolloutPlan drawing_of(const Batching& plan, const PlanInput& input) {
  int64_t prompt_tokens = std::max({kPromptTokens, plan.train.longest, plan.eval.longest});
  if (!plan.job.rollout.tools.command.empty()) prompt_tokens = std::max(prompt_tokens, plan.job.data.max_length);
  return {.stop_ids = input.stop_ids, .stop_sequences = input.stop_sequences, .prompt_tokens = prompt_tokens};
}

}  // namespace

Rollouts plan_rollouts(const Batching& batching, const PlanInput& input, const Provider& provider) {
  Rollouts plan{batching};
  if (!draws_completions(plan.job.objective.type())) return plan;
  RolloutConfig& rollout = plan.job.rollout;
  plan.rollout = drawing_of(batching, input);
  if (served(plan)) require_single_tokens(plan);
  const std::string decoder = provider.decoder(plan.device.cuda, plan.model.reads_source());
  if (!served(plan)) plan.rollout.decoder = decoder;
  if (rollout.lookup_tokens > 0 && decoder == "reference")
    throw KeyError(ErrorKind::job, "rollout.lookup_tokens",
                   "guessed tokens change nothing only if a token's logits do not depend on what is computed with it; with "
                   "ATen's products they do",
                   "remove it, or draw on a CPU with provider: fused");
  if (rollout.lookup_tokens > 0 && plan.model.recurrent())
    throw KeyError(ErrorKind::job, "rollout.lookup_tokens", "a wrong guess cannot be taken back from the states of this model's layers", "remove it");
  plan.settle("rollout.slots", rollout.slots, slots_of(plan, provider));
  plan.rollout.waves = (completions(rollout) + *rollout.slots - 1) / *rollout.slots;
  return plan;
}

std::vector<MemoryLine> rollout_lines(const Rollouts& plan, const Provider& provider, const ActivationShape& shape) {
  if (served(plan)) return {};
  const int64_t slots = *plan.job.rollout.slots;
  std::vector<MemoryLine> training = provider.decoding_lines(shape, decoding_shape(plan, slots, false));
  if (plan.eval.examples == 0) return training;
  std::vector<MemoryLine> evaluation = provider.decoding_lines(
      shape, decoding_shape(plan, std::min({slots, plan.job.eval.prompts, plan.eval.examples}), true));
  return total_bytes(evaluation) > total_bytes(training) ? evaluation : training;
}

double sample_seconds(const Rollouts& plan, const Rates* rates) {
  if (!rates || served(plan)) return 0;
  const int64_t slots = *plan.job.rollout.slots;
  const Inventory inventory = inventory_of(plan);
  const Graph& step = inventory.lists->evaluation(plan.step);
  const StepSizes sizes{slots, slots, bytes_of(*plan.job.train.precision), *plan.job.train.threads};
  double token = 0;
  for (const Op& op : step.ops)
    for (const Work& work : work_of(step, op, sizes, 1)) token += rates->seconds(work, *plan.job.train.precision).value_or(0);
  return token * static_cast<double>(plan.job.rollout.max_new_tokens) * static_cast<double>(plan.rollout.waves);
}

std::string rollout_text(const Rollouts& plan) {
  const RolloutConfig& rollout = plan.job.rollout;
  const int64_t all = rollout.prompts_per_step * rollout.samples_per_prompt;
  std::string text = format_count(rollout.prompts_per_step) + " prompts × " + format_count(rollout.samples_per_prompt) +
                     " completions of at most " + format_count(rollout.max_new_tokens) + " tokens, temperature " +
                     format_number(rollout.temperature);
  if (served(plan))
    text += "; drawn by " + *rollout.server.url + " with the adapter of " + moment_of(rollout.server) + ", " + format_count(rollout.server.concurrency) +
            " requests at once, and compared with the trainer's log-probabilities before anything is trained; completions that had not arrived when a "
            "run was killed are drawn again, and are the same only if the server draws the same";
  else
    text += "; " + format_count(std::min(*rollout.slots, all)) + " at once, " + format_count(plan.rollout.waves) +
            (plan.rollout.waves == 1 ? " wave" : " waves") + "; each prompt is read once for its group";
  if (!plan.rollout.decoder.empty() && plan.rollout.decoder != plan.provider_name())
    text += "; attention over the cache is ATen's, since " + plan.provider_name() + " has no kernel for it on this device";
  if (rollout.lookup_tokens > 0)
    text += "; up to " + format_count(rollout.lookup_tokens) + " tokens ahead are guessed from what a completion holds, in slots that are free: " +
            (plan.job.train.precision == Precision::fp32 ? "no token or log-probability changes" : "this changes only rounding in " + name_of(*plan.job.train.precision));
  if (!rollout.tools.command.empty())
    text += "; up to " + format_count(rollout.tools.max_turns) + " turns, between which " + join(rollout.tools.command, " ") + " answers";
  if (plan.rollout.sample_seconds > 0)
    text += "; drawing takes about " + format_seconds(plan.rollout.sample_seconds) + " if all are that long";
  if (rollout.dynamic_sampling.reward)
    text += "; draws on, up to " + format_count(rollout.dynamic_sampling.max_rounds) + " rounds, for groups whose mean " +
            *rollout.dynamic_sampling.reward + " lies between " + format_number(rollout.dynamic_sampling.keep[0]) + " and " +
            format_number(rollout.dynamic_sampling.keep[1]);
  return text;
}

std::string updates_text(const Rollouts& plan) {
  const auto& o = plan.job.objective.as<PolicyConfig>();
  const int64_t steps = o.updates_per_rollout * o.epochs_per_rollout;
  const char* divisors[] = {"trained tokens", "completions, each a mean of its own", "completions times rollout.max_new_tokens"};
  std::string text = std::string("divided by the step's ") + divisors[static_cast<size_t>(o.mean)] + "; ";
  if (plan.job.rollout.server.max_staleness > 0)
    text += "tokens that older weights drew weigh up to " + format_number(*correction_limit(plan.job.rollout)) + "; ";
  if (steps == 1 && plan.job.objective.as<GrpoConfig>().ratio != PolicyRatio::group)
    return text + "1 step a rollout: the policy being trained is the one " +
           (plan.job.rollout.server.max_staleness == 0 ? "that drew" : "the ratio starts from") + ", so the ratio is 1 and no limit binds";
  text += format_count(steps) + (steps == 1 ? " step" : " steps") + " a rollout";
  return steps == 1 ? text : text + ": the first has ratio 1, the others are clipped against the log-probabilities from before";
}

}  // namespace forge
