#include "core/plan/resolve.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <span>

#include "core/base/key_error.h"
#include "core/base/text.h"
#include "core/config/field.h"
#include "core/config/job_json.h"
#include "core/config/names.h"
#include "core/data/batch/order.h"
#include "core/data/prepare.h"
#include "core/families/modules.h"
#include "core/families/trained_layout.h"
#include "core/objective/objective.h"
#include "core/plan/fit.h"
#include "core/plan/value_plan.h"

namespace forge {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t mean_length(const DataSummary& data) {
  return std::max<int64_t>(1, ceil_div(data.tokens, std::max<int64_t>(1, data.examples)));
}

// `lengths` may come from a sample.
int64_t steps_of_epoch(const Plan& plan, const std::vector<int64_t>& lengths, const Parts& first_epoch) {
  if (!lengths.empty())
    return ceil_div(static_cast<int64_t>(first_epoch.size()) * plan.train.examples, std::ssize(lengths));
  if (draws_completions(plan.job.objective.type)) return ceil_div(plan.train.examples, plan.job.rollout.prompts_per_step);
  if (plan.job.train.global_batch_tokens)
    return ceil_div(plan.train.tokens, *plan.job.train.global_batch_tokens);
  return ceil_div(plan.train.examples, *plan.job.train.global_batch_size);
}

}  // namespace

void derived(Plan& plan, const std::string& key, const std::string& reason) {
  plan.origins[key] = {OriginKind::derived, "derived", reason};
}

void from_profile(Plan& plan, const std::string& key, const std::string& reason) {
  plan.origins[key] = {OriginKind::profile, "profile " + plan.profile, reason};
}

void resolve_device(Plan& plan) {
  if (plan.job.hardware.device == "auto")
    derived(plan, "hardware.device",
            !plan.device.cuda         ? "there is no GPU"
            : !plan.device.gpu.probed ? "asked for by name"
                                      : "the GPU with the most free memory");
  plan.job.hardware.device = plan.device_name();
  if (plan.job.hardware.profile == "auto") derived(plan, "hardware.profile", plan.profile_rule);
  plan.job.hardware.profile = plan.profile;
}

// On a CPU by what was measured there, if anything was.
void resolve_precision(Plan& plan, const Profile& profile, const Rates* rates) {
  Auto<Precision>& precision = plan.job.train.precision;
  if (!precision) {
    precision = profile.precision.value;
    from_profile(plan, "train.precision", profile.precision.reason);
    if (const auto gain = rates && !plan.device.cuda ? rates->bf16_gain() : std::nullopt) {
      precision = *gain > 1 ? Precision::bf16 : Precision::fp32;
      derived(plan, "train.precision",
              "measured here on " + rates->date + ": products in bf16 take " + format_number(1 / *gain) + " of the time of fp32");
    }
  }
  // A profile's storage type only applies with its own precision.
  plan.storage = *precision == profile.precision.value ? profile.storage.value : *precision;
  // Trained weights are read in the compute type.
  if (plan.job.adapter.type == AdapterType::none) plan.storage = *precision;
  plan.loss_scaling = *precision == Precision::fp16 ? LossScaling::dynamic : LossScaling::none;
  plan.engine = profile.engine.value;
}

void resolve_threads(Plan& plan) {
  if (plan.job.train.threads) return;
  plan.job.train.threads = plan.device.cpu.cores;
  derived(plan, "train.threads", "the processors this process may use");
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
  ActivationShape shape{.spec = plan.model, .adapter = plan.job.adapter};
  shape.precision = *plan.job.train.precision, shape.storage = plan.storage;
  shape.cuda = plan.device.cuda, shape.capability = plan.device.gpu.compute_capability;
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
      derived(plan, "provider", provider.summary + passed_over);
      return provider;
    }
    passed_over += std::string("; not ") + provider.name + ": " + join(faults, ", ");
  }
  throw KeyError(ErrorKind::job, "provider", "none can do this job" + passed_over);
}

bool head_without_logits(Precision precision, InstructionSet instructions) {
  if (precision == Precision::fp32) return false;
  return precision != Precision::bf16 || instructions < InstructionSet::avx512_bf16;
}

void resolve_head(Plan& plan) {
  const Precision precision = *plan.job.train.precision;
  const bool by_token = objective_of(plan.job.objective.type).coupling == Coupling::token;
  plan.fused_head = by_token && plan.provider == "fused" && plan.storage == precision &&
                    (plan.device.cuda || head_without_logits(precision, instructions_of(plan.device.cpu)));
}

// Where products are a library's, a pass over y and one over d x are saved. A CPU's own kernel keeps both in cache; what is decoded
// or converted before each product has no place for the adapter; dropout's mask lies between x and A but not between x and W.
void resolve_adapters(Plan& plan) {
  const AdapterConfig& adapter = plan.job.adapter;
  plan.folded_adapters = plan.device.cuda && plan.provider == "fused" && adapter.type == AdapterType::lora && !adapter.use_dora &&
                         adapter.dropout == 0 && plan.job.model.quantization == Quantization::none &&
                         plan.storage == *plan.job.train.precision;
}

namespace {

void resolve_reference(Plan& plan) {
  ObjectiveConfig& objective = plan.job.objective;
  const AdapterConfig& adapter = plan.job.adapter;
  const auto start = [&](const std::string& reason) {
    objective.reference = ReferenceModel::start;
    derived(plan, "objective.reference", reason);
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
    derived(plan, "objective.reference", "the model without the adapter, which is the model as training begins");
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
  derived(plan, "objective.reference_cache",
          moves   ? "training moves the weights that the reference is made of"
          : again ? "the data are read more than once: the reference would be computed in each epoch"
                  : "the data are read once: a reference computed beside each step costs no more");
}

}  // namespace

namespace {

void require_both_classes(const Plan& plan) {
  const PairCounts& pairs = plan.train.pairs;
  if (pairs.desirable > 0 && pairs.undesirable > 0) return;
  throw KeyError(ErrorKind::data, "data.train",
                 std::string("holds no ") + (pairs.desirable > 0 ? "undesirable" : "desirable") +
                     " answer, and kto learns the difference: expected both",
                 "add rows with label: " + std::string(pairs.desirable > 0 ? "false" : "true"));
}

// Ethayarajh et al. (2024) advise between 1 and 4/3.
void warn_of_classes(Plan& plan) {
  const double ratio = class_ratio(plan), most = 4.0 / 3;
  if (ratio >= 1 && ratio <= most) return;
  const ObjectiveConfig& objective = plan.job.objective;
  const auto number = [](double value) { return format_number(std::round(1000 * value) / 1000); };
  const bool too_good = ratio > most;
  const std::string key = too_good ? "undesirable_weight" : "desirable_weight";
  const double proposed = too_good ? objective.undesirable_weight * ratio : objective.desirable_weight / ratio;
  plan.warnings.push_back("kto: desirable answers weigh " + number(ratio) + " times as much as undesirable ones (" +
                          format_count(plan.train.pairs.desirable) + " × " + format_number(objective.desirable_weight) + " against " +
                          format_count(plan.train.pairs.undesirable) + " × " + format_number(objective.undesirable_weight) +
                          "), where 1 to 1.333 is advised: set objective." + key + ": " + number(proposed));
}

}  // namespace

void resolve_objective(Plan& plan) {
  ObjectiveConfig& objective = plan.job.objective;
  const Objective& row = objective_of(objective.type);
  const std::string whose = "of " + name_of(objective.type);
  if (row.beta > 0 && !objective.beta) plan.origins["objective.beta"] = {OriginKind::unset, "default", whose};
  if (row.coupling == Coupling::pair && !row.scores && !objective.nll_weight) plan.origins["objective.nll_weight"] = {OriginKind::unset, "default", whose};
  objective = with_defaults(objective);
  if (row.coupling == Coupling::answer) {
    require_both_classes(plan);
    warn_of_classes(plan);
  }
  if (row.has_reference) resolve_reference(plan);
  if (row.scores && plan.job.eval.samples > 0) {
    plan.job.eval.samples = 0;
    derived(plan, "eval.samples", "a reward model writes no answers");
  }
  const auto rate = plan.origins.find("optimizer.learning_rate");
  const bool open = rate == plan.origins.end() || rate->second.kind == OriginKind::unset;
  const bool full = plan.job.adapter.type == AdapterType::none;
  const double own = full ? row.full_learning_rate : row.adapter_learning_rate;
  if (!open || own == 0) return;
  plan.job.optimizer.learning_rate = own;
  plan.origins["optimizer.learning_rate"] = {OriginKind::unset, "default", whose + (full ? " for all weights" : " for an adapter")};
}

double class_ratio(const Plan& plan) {
  const ObjectiveConfig& objective = plan.job.objective;
  return static_cast<double>(plan.train.pairs.desirable) * objective.desirable_weight /
         (static_cast<double>(plan.train.pairs.undesirable) * objective.undesirable_weight);
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
    derived(plan, "train.global_batch_size", "completions of a rollout, over objective.updates_per_rollout");
    return;
  }
  if (train.global_batch_tokens) {
    train.global_batch_size = std::max<int64_t>(1, *train.global_batch_tokens / mean_length(plan.train));
    derived(plan, "train.global_batch_size", "about as many examples as global_batch_tokens holds");
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

// Files of rollouts, where every completion is as long as it may be: a token is an id and a log-probability in decimals.
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
  const TrainedLayout trained = trained_layout(inventory_of(plan).parameters, job.optimizer);
  constexpr int64_t kSmallFiles = 1 << 20;  // manifest, random states, data position
  plan.checkpoint_bytes = plan.parameters.trainable * (trained.averages ? 8 : 4) + trained.state_bytes() + kSmallFiles;
  if (has_value_network(plan)) plan.checkpoint_bytes += value_checkpoint_bytes(plan);
  // One more than is kept: the new one is complete before the old one is removed.
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

// Files are known by their content (start_files.h), wherever they lie.
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
  // Everything read from files, by content.
  plan.identity["model"] = plan.model_hash + " (" + format_count(plan.model_bytes) + " B)";
  plan.identity["data.train"] = plan.train.content_hash;
}

namespace {

using Warn = std::function<void(std::string)>;

// AdamW moves each weight by about the learning rate per step, whatever the gradient; weights are of the order of 0.02.
void warn_of_rate(const Job& job, const Warn& warn) {
  constexpr double kFarTooHigh = 0.05;
  if (job.optimizer.type != OptimizerType::adamw || job.optimizer.learning_rate < kFarTooHigh) return;
  warn("optimizer.learning_rate " + format_number(job.optimizer.learning_rate) +
       " is far above what adamw trains with (" +
       (job.adapter.type == AdapterType::none ? "1e-6 to 1e-4 for all weights"
                                              : "1e-5 to 1e-3 for an adapter") +
       "): the loss will hardly fall");
}

// The shortest completion with a lambda above 0 has more than 1 / lambda_length tokens (core/reinforce/value.h).
void warn_of_lambda(const Job& job, const Warn& warn) {
  const std::optional<double>& by_length = job.objective.lambda_length;
  if (!by_length || *by_length * static_cast<double>(job.rollout.max_new_tokens) > 1) return;
  warn("objective.lambda_length " + format_number(*by_length) + " makes lambda 0 for completions of up to " +
       format_count(static_cast<int64_t>(1 / *by_length)) + " tokens, and none is longer (rollout.max_new_tokens " +
       format_count(job.rollout.max_new_tokens) + "): a token learns from the next one's value alone; objective.lambda_policy: 0.95 suits short answers");
}

// A rank above the matrix's own adds nothing; the largest excess is reported for all.
void warn_of_rank(const Plan& plan, const Warn& warn) {
  const AdapterSite* worst = nullptr;
  const auto full = [](const AdapterSite& site) { return std::min(site.in_features, site.out_features); };
  const std::vector<AdapterSite> sites = adapter_sites(plan.model, plan.job.adapter);
  for (const AdapterSite& site : sites)
    if (site.rank > full(site) && (!worst || site.rank - full(site) > worst->rank - full(*worst)))
      worst = &site;
  if (worst)
    warn("adapter.rank " + format_count(worst->rank) + " is above the width of " + worst->module + " (" +
         format_count(worst->in_features) + " × " + format_count(worst->out_features) + "): ranks past " +
         format_count(full(*worst)) + " add memory and nothing else");
}

// Weights move by the rate times a gradient that these leave next to nothing of, or that noise covers.
void warn_of_extremes(const Plan& plan, const Warn& warn) {
  const Job& job = plan.job;
  const AdapterConfig& adapter = job.adapter;
  const int64_t warmup = job.schedule.warmup_steps.value_or(
      static_cast<int64_t>(job.schedule.warmup_ratio * static_cast<double>(plan.steps)));
  if (plan.steps > 1 && warmup >= plan.steps)
    warn("schedule.warmup_steps " + format_count(warmup) + " are not over in the run's " +
         format_count(plan.steps) + " steps: optimizer.learning_rate is never reached");
  constexpr double kLeastNorm = 1e-4, kMostScale = 128, kMostNoise = 200;
  if (job.train.max_grad_norm > 0 && job.train.max_grad_norm < kLeastNorm)
    warn("train.max_grad_norm " + format_number(job.train.max_grad_norm) +
         " cuts nearly every gradient to almost nothing (norms of 0.1 to 10 are usual): 1 is common, 0 cuts "
         "none");
  if (job.train.neftune_alpha > kMostNoise)
    warn("train.neftune_alpha " + format_number(job.train.neftune_alpha) +
         " drowns the embeddings in noise: 5 to 15 is common");
  if (adapter.type == AdapterType::none) return;
  if (adapter.alpha == 0)
    warn(
        "adapter.alpha 0 (lora_alpha of adapter.init_from) multiplies the adapter by 0: its factors get no "
        "gradient and nothing is learned");
  if (adapter.alpha < 0)
    warn("adapter.alpha " + format_number(adapter.alpha) +
         " (lora_alpha of adapter.init_from) turns the adapter's sign: expected above 0");
  const auto rank = static_cast<double>(std::max<int64_t>(1, adapter.rank));
  const double scale = adapter.alpha / (adapter.use_rslora ? std::sqrt(rank) : rank);
  if (scale > kMostScale)
    warn("adapter.alpha " + format_number(adapter.alpha) + " multiplies the adapter by " +
         format_number(std::round(scale)) +
         ", where 1 to 4 is common: the first steps will throw the model off");
}

// Rows first to end of a file.
struct Share {
  std::string path;
  int64_t begin = 0, end = 0;
};
std::vector<Share> shares_of(const std::vector<DataSource>& sources) {
  std::vector<Share> shares;
  for (const DataSource& source : sources) {
    std::error_code failed;
    const std::string path = std::filesystem::weakly_canonical(source.path, failed).string();
    const int64_t most = std::numeric_limits<int64_t>::max();
    shares.push_back(
        {failed ? source.path : path, source.skip,
         source.limit && *source.limit < most - source.skip ? source.skip + *source.limit : most});
  }
  return shares;
}
bool overlap(const Share& a, const Share& b) {
  return a.path == b.path && a.begin < b.end && b.begin < a.end;
}

void warn_of_data(const Plan& plan, const Warn& warn) {
  const Job& job = plan.job;
  const std::vector<Share> train = shares_of(job.data.train), eval = shares_of(job.data.eval);
  const auto trained = [&](const Share& share) {
    return std::any_of(train.begin(), train.end(), [&](const Share& other) { return overlap(share, other); });
  };
  const bool same = !plan.eval.content_hash.empty() && plan.eval.content_hash == plan.train.content_hash;
  if (!job.data.eval.empty() && (same || std::any_of(eval.begin(), eval.end(), trained)))
    warn(
        "data.eval names rows of data.train: eval_loss says how well they were learned by heart, not what is "
        "learned of others");
  for (size_t i = 0; i < train.size(); ++i)
    if (std::any_of(train.begin(), train.begin() + static_cast<std::ptrdiff_t>(i),
                    [&](const Share& other) { return overlap(train[i], other); }))
      warn("data.train names " + job.data.train[i].path +
           " twice: its rows are trained twice in an epoch (weight: 2 says so in one entry)");
  const auto stated = plan.origins.find("train.global_batch_size");
  const bool asked = stated != plan.origins.end() && stated->second.kind == OriginKind::given;
  constexpr int64_t kUsualBatch = 32;  // below it the data are few, not the batch large
  if (asked && !draws_completions(job.objective.type) &&
      *job.train.global_batch_size > std::max(kUsualBatch, plan.train.examples))
    warn("train.global_batch_size " + format_count(*job.train.global_batch_size) + " is more than the " +
         format_count(plan.train.examples) + " training examples: each step is a whole epoch");
  if (plan.train.pairs.other_prompts > 0)
    warn(format_count(plan.train.pairs.other_prompts) + " of " + format_count(plan.train.examples) +
         " pairs have another prompt before the rejected answer than before the chosen one: the prompts are "
         "compared too, not the answers alone");
  for (const auto& [name, data] : {std::pair("training", &plan.train), std::pair("evaluation", &plan.eval)})
    if (data->cuts.unsaid_tools > 0)
      warn("the chat template does not write the tools of " + format_count(data->cuts.unsaid_tools) +
           (data->cuts.unsaid_tools == 1 ? " row" : " rows") + " of the " + name +
           " data: the model learns to call what it is not told of");
}

}  // namespace

void add_warnings(Plan& plan, const PlanInput& input) {
  const auto warn = [&](std::string text) { plan.warnings.push_back(std::move(text)); };
  const Job& job = plan.job;
  if (plan.train.estimated)
    warn("estimated from the first " + format_count(plan.train.rows) +
         " rows: steps, lengths and memory may change");
  if (plan.steps == 0)
    warn("only train.max_time ends this run: the schedule follows the clock, and steps are not known");
  if (job.train.max_steps && plan.steps < *job.train.max_steps && job.train.epochs)
    warn("train.epochs ends the run at step " + format_count(plan.steps) + ", before train.max_steps");
  if (plan.train.supervised_tokens == 0 && plan.train.examples > 0 && !draws_completions(job.objective.type))
    warn("no token of the training data is trained");
  if (plan.train.truncated > 0)
    warn(format_count(plan.train.truncated) + " of " + format_count(plan.train.examples) +
         " examples are cut at " + format_count(job.data.max_length) + " tokens (data.max_length)");
  for (const auto& [name, data] : {std::pair("training", &plan.train), std::pair("evaluation", &plan.eval)})
    if (!data->unread_keys.empty())
      warn(std::string("the ") + name + " data has keys that nothing reads: " + unread_text(*data));
  warn_of_rate(job, warn);
  warn_of_rank(plan, warn);
  warn_of_lambda(job, warn);
  warn_of_extremes(plan, warn);
  warn_of_data(plan, warn);
  if (plan.engine == "cuda12") warn(input.profile.engine.reason);
  if (plan.device.cuda && !plan.device.gpu.probed)
    warn("planned for a " + plan.device.gpu.name + " that is not in this machine");
  if (plan.device.cuda && plan.device.gpu.probed && plan.engine == "cuda13" &&
      plan.device.gpu.cuda_version > 0 && plan.device.gpu.cuda_version < 13000)
    warn("the driver knows CUDA " + std::to_string(plan.device.gpu.cuda_version / 1000) + "." +
         std::to_string(plan.device.gpu.cuda_version % 1000 / 10) +
         ", the engine needs 13.0: install driver 580 or newer");
  if (!input.profile.name.empty() && *job.train.precision != input.profile.precision.value)
    warn("train.precision " + name_of(*job.train.precision) + " overrides profile " + plan.profile +
         ", which uses " + name_of(input.profile.precision.value) + ": " + input.profile.precision.reason);
}

}  // namespace forge
