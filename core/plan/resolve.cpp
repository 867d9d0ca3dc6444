#include "core/plan/resolve.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <span>

#include "core/data/batch/order.h"
#include "core/job/field.h"
#include "core/job/job_json.h"
#include "core/job/names.h"
#include "core/learn/objective/objective.h"
#include "core/lib/base/ceil_div.h"
#include "core/lib/base/key_error.h"
#include "core/lib/base/text.h"
#include "core/model/families/trained_layout.h"
#include "core/plan/stages/inventory.h"
#include "core/plan/stages/value_plan.h"

namespace forge {
namespace {


int64_t mean_length(const DataSummary& data) {
  return std::max<int64_t>(1, ceil_div(data.tokens, std::max<int64_t>(1, data.examples)));
}

// Returns the steps of an epoch. `lengths` may come from a sample.
int64_t steps_of_epoch(const Plan& plan, const std::vector<int64_t>& lengths, const Parts& first_epoch) {
  if (!lengths.empty())
    return ceil_div(static_cast<int64_t>(first_epoch.size()) * plan.train.examples, std::ssize(lengths));
  if (draws_completions(plan.job.objective.type)) return ceil_div(plan.train.examples, plan.job.rollout.prompts_per_step);
  if (plan.job.train.global_batch_tokens)
    return ceil_div(plan.train.tokens, *plan.job.train.global_batch_tokens);
  return ceil_div(plan.train.examples, *plan.job.train.global_batch_size);
}

}  // namespace

void from_profile(Plan& plan, const std::string& key, const std::string& reason) {
  plan.origins[key] = {OriginKind::profile, "profile " + plan.profile, reason};
}

void resolve_device(Plan& plan, const PlanInput& input) {
  if (plan.job.hardware.device == "auto")
    derived(plan.origins, "hardware.device",
            !plan.device.cuda         ? input.device_warning.empty() ? "there is no GPU" : "no GPU here can be used"
            : !plan.device.gpu.probed ? "asked for by name"
                                      : "the GPU with the most free memory");
  plan.job.hardware.device = plan.device_name();
  if (plan.job.hardware.profile == "auto") derived(plan.origins, "hardware.profile", plan.profile_rule);
  plan.job.hardware.profile = plan.profile;
}

// Settles the precision: on a CPU by what was measured there, if anything was. A profile speaks of
// a kind of processor, and rates of this one, so rates come first; the job's own word stands above
// both.
void resolve_precision(Plan& plan, const Profile& profile, const Rates* rates) {
  Auto<Precision>& precision = plan.job.train.precision;
  if (!precision) {
    precision = profile.precision.value;
    from_profile(plan, "train.precision", profile.precision.reason);
    if (const auto gain = rates && !plan.device.cuda ? rates->bf16_gain() : std::nullopt) {
      precision = *gain > 1 ? Precision::bf16 : Precision::fp32;
      derived(plan.origins, "train.precision",
              "measured here on " + rates->date + ": products in bf16 take " + format_number(std::round(100 / *gain) / 100) + " times the time of fp32");
    }
  }
  // A profile's storage type only applies with its own precision.
  plan.storage = *precision == profile.precision.value ? profile.storage.value : *precision;
  // Trained weights are read in the compute type.
  if (plan.job.adapter.type == AdapterType::none) plan.storage = *precision;
  plan.loss_scaling = *precision == Precision::fp16 ? LossScaling::dynamic : LossScaling::none;
  plan.engine = profile.engine.value;
}

// Settles the type of the residual stream beside fp16, which ends at 65,504 and has 11 bits: sums
// over many layers pass both, while what a layer adds fits. bf16 has fp32's range and no such
// stream.
void resolve_residual(Plan& plan, const Profile& profile) {
  Auto<Residual>& residual = plan.job.train.residual;
  const Precision precision = *plan.job.train.precision;
  if (precision == Precision::fp16) {
    if (residual) return;
    residual = profile.residual.value;
    return from_profile(plan, "train.residual", profile.residual.reason);
  }
  if (residual == Residual::fp32)
    throw KeyError(ErrorKind::job, "train.residual",
                   "fp32 is for runs in fp16; this one computes in " + name_of(precision) + ", whose range is fp32's", "leave it out");
  residual = Residual::compute;
}

void resolve_threads(Plan& plan) {
  if (plan.job.train.threads) return;
  plan.job.train.threads = plan.device.cpu.cores;
  derived(plan.origins, "train.threads", "the processors this process may use");
}

namespace {

const Provider& named(const std::vector<Provider>& providers, const std::string& name) {
  std::vector<std::string> known;
  for (const Provider& provider : providers) {
    if (provider.name == name) return provider;
    known.push_back(provider.name);
  }
  throw KeyError(ErrorKind::job, "provider",
                 "unknown provider \"" + name + "\"" + did_you_mean(name, known) + "; forge has auto, " +
                     join(known, ", "));
}

}  // namespace

const Provider& resolve_provider(Plan& plan, const std::vector<Provider>& providers) {
  ActivationShape shape;
  shape.spec = plan.model, shape.adapter = plan.job.adapter;
  shape.precision = *plan.job.train.precision, shape.storage = plan.storage;
  shape.cuda = plan.device.cuda, shape.capability = plan.device.gpu.compute_capability;
  shape.residual = residual_of(plan.job), shape.quantization = plan.job.model.quantization;
  record_modules(shape, adapter_sites(plan.model, plan.job.adapter));
  if (plan.job.provider != "auto") {
    const Provider& asked = named(providers, plan.job.provider);
    const std::vector<std::string> faults = asked.faults(shape);
    if (!faults.empty())
      throw KeyError(ErrorKind::job, "provider",
                     plan.job.provider + " cannot do this job: " + join(faults, "; "), "set provider: auto");
    plan.provider = asked.name;
    return asked;
  }
  std::string passed_over;
  for (const Provider& provider : providers) {
    const std::vector<std::string> faults = provider.faults(shape);
    if (faults.empty()) {
      plan.provider = plan.job.provider = provider.name;
      derived(plan.origins, "provider", provider.summary + passed_over);
      return provider;
    }
    passed_over += std::string("; not ") + provider.name + ": " + join(faults, ", ");
  }
  throw KeyError(ErrorKind::job, "provider", "none can do this job" + passed_over);
}

void resolve_limits(Plan& plan) {
  TrainConfig& train = plan.job.train;
  if (train.epochs || train.max_steps || train.max_tokens || train.max_time) return;
  train.epochs = 1;
  plan.origins["train.epochs"] = {OriginKind::unset, "default", "1 unless another limit is set"};
}

void resolve_global_batch(Plan& plan) {
  TrainConfig& train = plan.job.train;
  if (train.global_batch_size) return;
  if (draws_completions(plan.job.objective.type)) {
    const RolloutConfig& rollout = plan.job.rollout;
    train.global_batch_size =
        ceil_div(rollout.prompts_per_step * rollout.samples_per_prompt, plan.job.objective.updates_per_rollout);
    derived(plan.origins, "train.global_batch_size", "completions of a rollout, over objective.updates_per_rollout");
    return;
  }
  if (train.global_batch_tokens) {
    train.global_batch_size = std::max<int64_t>(1, *train.global_batch_tokens / mean_length(plan.train));
    derived(plan.origins, "train.global_batch_size", "about as many examples as global_batch_tokens holds");
    return;
  }
  train.global_batch_size = 32;
  plan.origins["train.global_batch_size"] = {OriginKind::unset, "default", "32 examples a step"};
}

void resolve_optimizer(Plan& plan) {
  OptimizerConfig& optimizer = plan.job.optimizer;
  const ValueOrigin of_type{OriginKind::unset, "default", "those of " + name_of(optimizer.type)};
  if (!optimizer.betas) {
    optimizer.betas = default_betas(optimizer.type);
    plan.origins["optimizer.betas"] = of_type;
  }
  if (!optimizer.momentum && default_momentum(optimizer.type) > 0) {
    optimizer.momentum = default_momentum(optimizer.type);
    plan.origins["optimizer.momentum"] = {OriginKind::unset, "default", "that of " + name_of(optimizer.type)};
  }
}

void resolve_steps(Plan& plan, const std::vector<int64_t>& lengths, const Parts& first_epoch) {
  const TrainConfig& train = plan.job.train;
  plan.steps_per_epoch = std::max<int64_t>(1, steps_of_epoch(plan, lengths, first_epoch));
  const ObjectiveConfig& objective = plan.job.objective;
  if (draws_completions(objective.type)) plan.steps_per_epoch *= objective.updates_per_rollout * objective.epochs_per_rollout;
  int64_t steps = 0;
  const auto limit = [&](int64_t most) { steps = steps == 0 ? most : std::min(steps, most); };
  if (train.epochs)
    limit(std::max<int64_t>(1, static_cast<int64_t>(std::ceil(
                                   *train.epochs * static_cast<double>(plan.steps_per_epoch) - 1e-9))));
  if (train.max_steps) limit(*train.max_steps);
  if (train.max_tokens) {
    const int64_t step_tokens = std::max<int64_t>(1, plan.train.tokens / plan.steps_per_epoch);
    limit(ceil_div(*train.max_tokens, step_tokens));
  }
  plan.steps = steps;
}

void measure_packing(Plan& plan, const std::vector<int64_t>& lengths, const Parts& first_epoch) {
  constexpr size_t kMeasuredSteps = 1000;
  const TrainConfig& train = plan.job.train;
  if (lengths.empty()) return;
  const std::span steps(first_epoch.data(), std::min(first_epoch.size(), kMeasuredSteps));
  BatchFill step_fill, micro_fill;
  for (const auto& step : steps) {
    if (train.global_batch_tokens) step_fill.add({step}, lengths, *train.global_batch_tokens);
    micro_fill.add(micro_batches(step, lengths, plan.job), lengths, *train.micro_batch_tokens);
  }
  plan.packing = {static_cast<double>(micro_fill.parts) / static_cast<double>(steps.size()),
                  micro_fill.share(), step_fill.share()};
}

// Returns the bytes of rollout files if every completion is as long as it may be: a token is an id
// and a log-probability in decimals.
static int64_t rollout_bytes(const Plan& plan) {
  if (!draws_completions(plan.job.objective.type)) return 0;
  constexpr int64_t kTokenBytes = 36, kLineBytes = 1 << 10;
  const ObjectiveConfig& objective = plan.job.objective;
  const RolloutConfig& rollout = plan.job.rollout;
  const int64_t rollouts = plan.steps / (objective.updates_per_rollout * objective.epochs_per_rollout) + 1;
  return rollouts * rollout.prompts_per_step * rollout.samples_per_prompt * (kLineBytes + kTokenBytes * rollout.max_new_tokens);
}

void resolve_disk(Plan& plan) {
  const Job& job = plan.job;
  const TrainedLayout trained = trained_layout(parameters_of(plan), job.optimizer);
  constexpr int64_t kSmallFiles = 1 << 20;  // manifest, random states, data position
  plan.checkpoint_bytes = plan.parameters.trainable * (trained.averages ? 8 : 4) + trained.state_bytes() + kSmallFiles;
  if (has_value_network(plan)) plan.checkpoint_bytes += value_checkpoint_bytes(plan);
  // One more is counted than is kept: the new checkpoint is complete before the old one is removed.
  const bool periodic = job.checkpoint.every_steps.has_value();
  const bool best = plan.eval.examples > 0;
  const int64_t most = plan.steps > 0 ? plan.steps : std::numeric_limits<int64_t>::max();  // 0: not known
  const int64_t kept =
      periodic ? std::min(job.checkpoint.keep_last, most / *job.checkpoint.every_steps + 1) : 1;
  const int64_t copies = kept + (best ? job.checkpoint.keep_best : 0) + 1;
  const bool full = job.adapter.type == AdapterType::none;
  const int64_t result = plan.parameters.trainable * (full ? bytes_of(*job.train.precision) : 4);
  constexpr int64_t kSmallLogs = 16 << 20;
  constexpr int64_t kLineBytes = 1 << 10;  // of metrics.jsonl and, where there is one, TensorBoard's file
  const int64_t logs = std::max(kSmallLogs, plan.steps / job.log.every_steps * kLineBytes);
  const double bytes = static_cast<double>(copies) * static_cast<double>(plan.checkpoint_bytes);
  plan.disk_bytes = static_cast<int64_t>(std::min(bytes, 1e18)) + result + logs + rollout_bytes(plan);
}

void require_disk(const Plan& plan, int64_t free_bytes) {
  if (plan.disk_bytes <= free_bytes) return;
  throw Error(ErrorKind::environment, plan.job.output_dir + ": the run writes up to " +
                                          format_bytes(plan.disk_bytes) + ", " + format_bytes(free_bytes) +
                                          " are free (one checkpoint is " +
                                          format_bytes(plan.checkpoint_bytes) + ")")
      .hint("free space, set output_dir to another disk, or keep fewer checkpoints (checkpoint.keep_last)");
}

// Replaces paths: files are known by their content (start_files.h), not by their paths.
static Json without_paths(Json rewards) {
  for (Json& reward : rewards)
    for (const char* key : {"path", "schema"})
      if (reward.contains(key) && !reward[key].is_null()) reward[key] = "a file";
  return rewards;
}

void fill_identity(Plan& plan, const Job& asked) {
  for (KeyRole role : {KeyRole::identity, KeyRole::limit})
    for (const std::string& key : keys_of_role(role)) plan.identity[key] = dump_json(value_of(asked, key));
  if (!asked.rewards.empty()) plan.identity["rewards"] = dump_json(without_paths(value_of(asked, "rewards")));
  for (const std::string& key : keys_of_role(KeyRole::execution))
    plan.execution[key] = dump_json(value_of(asked, key));
  // Everything read from files counts by its content.
  plan.identity["model"] = plan.model_hash + " (" + format_count(plan.model_bytes) + " B)";
  plan.identity["data.train"] = plan.train.content_hash;
}

}  // namespace forge
