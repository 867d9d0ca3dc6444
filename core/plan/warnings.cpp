#include "core/plan/warnings.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <utility>

#include "core/data/prepare.h"
#include "core/job/names.h"
#include "core/job/job.h"
#include "core/learn/objective/objective.h"
#include "core/lib/base/text.h"
#include "core/plan/fit/offload.h"

namespace forge {
namespace {

using Warn = std::function<void(std::string)>;

// Warns of a high rate: AdamW moves each weight by about the learning rate per step, whatever the
// gradient; weights are of the order of 0.02.
void warn_of_rate(const Job& job, const Warn& warn) {
  constexpr double kFarTooHigh = 0.05;
  if (job.optimizer.type != OptimizerType::adamw || job.optimizer.learning_rate < kFarTooHigh) return;
  warn("optimizer.learning_rate " + format_number(job.optimizer.learning_rate) +
       " is far above what adamw trains with (" +
       (job.adapter.type == AdapterType::none ? "1e-6 to 1e-4 for all weights"
                                              : "1e-5 to 1e-3 for an adapter") +
       "): the loss will hardly fall");
}

// Warns of class weights: Ethayarajh et al. (2024) advise a ratio between 1 and 4/3.
void warn_of_classes(const Plan& plan, const Warn& warn) {
  if (objective_of(plan.job.objective.type()).coupling != Coupling::answer) return;
  const double ratio = class_ratio(plan), most = 4.0 / 3;
  if (ratio >= 1 && ratio <= most) return;
  const auto& objective = plan.job.objective.as<KtoConfig>();
  const auto number = [](double value) { return format_number(std::round(1000 * value) / 1000); };
  const bool too_good = ratio > most;
  const std::string key = too_good ? "undesirable_weight" : "desirable_weight";
  const double proposed = too_good ? objective.undesirable_weight * ratio : objective.desirable_weight / ratio;
  warn("kto: desirable answers weigh " + number(ratio) + " times as much as undesirable ones (" +
       format_count(plan.train.pairs.desirable) + " × " + format_number(objective.desirable_weight) + " against " +
       format_count(plan.train.pairs.undesirable) + " × " + format_number(objective.undesirable_weight) +
       "), where 1 to 1.333 is advised: set objective." + key + ": " + number(proposed));
}

// Warns of a lambda of 0: the shortest completion with a lambda above 0 has more than 1 /
// lambda_length tokens (core/learn/reinforce/value.h).
void warn_of_lambda(const Job& job, const Warn& warn) {
  const std::optional<double>& by_length = job.objective.as<PpoConfig>().lambda_length;
  if (!by_length || *by_length * static_cast<double>(job.rollout.max_new_tokens) > 1) return;
  warn("objective.lambda_length " + format_number(*by_length) + " makes lambda 0 for completions of up to " +
       format_count(static_cast<int64_t>(1 / *by_length)) + " tokens, and none is longer (rollout.max_new_tokens " +
       format_count(job.rollout.max_new_tokens) + "): a token learns from the next one's value alone; objective.lambda_policy: 0.95 suits short answers");
}

// Warns of too many threads: threads that share a core wait for each other at the end of every
// operation.
void warn_of_threads(const Plan& plan, const Warn& warn) {
  const int64_t threads = plan.job.train.threads.value_or(0), cores = plan.device.cpu.cores;
  if (threads > cores && cores > 0)
    warn("train.threads " + format_count(threads) + " is more than the " + format_count(cores) +
         (cores == 1 ? " processor" : " processors") + " that this process may use, which is slower; train.threads: auto uses as many");
}

// Warns of a rank above the matrix's own, which adds nothing; the largest excess is reported for
// all.
void warn_of_rank(const Plan& plan, const Warn& warn) {
  const auto full = [](const AdapterSite& site) { return std::min(site.in_features, site.out_features); };
  const auto beyond = [&](const AdapterSite& site) { return site.rank - full(site); };
  if (std::ranges::none_of(adapter_sites(plan.model, plan.job.adapter, Experts::in_rows),
                           [&](const AdapterSite& site) { return beyond(site) > 0; }))
    return;
  const std::vector<AdapterSite> sites = adapter_sites(plan.model, plan.job.adapter);
  const auto worst = std::ranges::max_element(sites, {}, beyond);
  if (worst != sites.end() && worst->rank > full(*worst))
    warn("adapter.rank " + format_count(worst->rank) + " is above the width of " + worst->module + " (" +
         format_count(worst->in_features) + " × " + format_count(worst->out_features) + "): ranks past " +
         format_count(full(*worst)) + " add memory and nothing else");
}

// Warns of a warmup that outlasts the run: its first step has rate 0, and the step after its last
// the whole rate.
void warn_of_warmup(const Plan& plan, const Warn& warn) {
  const ScheduleConfig& schedule = plan.job.schedule;
  const int64_t warmup = warmup_steps(schedule, plan.steps);
  if (plan.steps == 0 || warmup < plan.steps) return;
  const std::string stated = schedule.warmup_steps ? "schedule.warmup_steps " + format_count(warmup)
                                                   : "schedule.warmup_ratio " + format_number(schedule.warmup_ratio) + " (" + format_count(warmup) +
                                                         (warmup == 1 ? " step)" : " steps)");
  if (plan.steps == 1) return warn(stated + " makes the learning rate of the run's only step 0: nothing is trained; set " +
                                    (schedule.warmup_steps ? "schedule.warmup_steps" : "schedule.warmup_ratio") + ": 0");
  warn(stated + " is not over in the run's " + format_count(plan.steps) + " steps: optimizer.learning_rate is never reached, at most " +
       format_number(std::round(100.0 * static_cast<double>(plan.steps - 1) / static_cast<double>(warmup))) + " % of it");
}

// Warns of cycles that are too short: a cosine of one step is its peak alone.
void warn_of_short_cycles(const Plan& plan, const Warn& warn) {
  const ScheduleConfig& schedule = plan.job.schedule;
  const int64_t left = plan.steps - warmup_steps(schedule, plan.steps);
  if (schedule.type != ScheduleType::cosine_with_restarts || left <= 0 || left >= 2 * schedule.cycles) return;
  warn("schedule.cycles " + format_count(schedule.cycles) + " in " + format_count(left) + (left == 1 ? " step" : " steps") +
       " after the warmup: a cycle has less than two steps, and the learning rate does not fall as a cosine does; at most " +
       format_count(std::max<int64_t>(1, left / 2)) + (left < 4 ? " cycle fits" : " cycles fit"));
}

// Warns of settings that leave next to nothing of a gradient, or that cover it with noise: weights
// move by the rate times the gradient.
void warn_of_extremes(const Plan& plan, const Warn& warn) {
  const Job& job = plan.job;
  const AdapterConfig& adapter = job.adapter;
  warn_of_warmup(plan, warn);
  warn_of_short_cycles(plan, warn);
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
         " (lora_alpha of adapter.init_from) flips the adapter's sign: expected above 0");
  const auto rank = static_cast<double>(std::max<int64_t>(1, adapter.rank));
  const double scale = adapter.alpha / (adapter.use_rslora ? std::sqrt(rank) : rank);
  if (scale > kMostScale)
    warn("adapter.alpha " + format_number(adapter.alpha) + " multiplies the adapter by " +
         format_number(std::round(scale)) +
         ", where 1 to 4 is common: the first steps will throw the model off");
}

// Rows of a file from `begin` to `end`.
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

// True if the job states this key.
bool is_given(const Plan& plan, const std::string& key) {
  const auto origin = plan.origins.find(key);
  return origin != plan.origins.end() && origin->second.kind == OriginKind::given;
}

// Warns of settings of config.json that the model does not compute.
void warn_of_config(const ConfigNotes& notes, const Warn& warn) {
  if (!notes.built.empty()) warn(notes.built);
  if (!notes.ignored.empty())
    warn("config.json has settings that transformers' " + notes.architecture + " never reads, and forge does not either: " + join(notes.ignored, ", "));
  if (notes.adapter_beside)
    warn(
        "the model's folder also holds an adapter (adapter_config.json), which is not applied; "
        "transformers would load it");
  if (!notes.dropouts.empty())
    warn("config.json has dropout inside the base model, which is trained without it (model.dropout: none): " + join(notes.dropouts, ", "));
}

// Says what becomes of matrices that a library quantised.
void warn_of_stored_base(const Plan& plan, const ConfigNotes& notes, const Warn& warn) {
  if (notes.stored.empty() || plan.job.model.init != ModelInit::file) return;
  const Quantization asked = plan.job.model.quantization;
  const bool book = starts_with(notes.stored, "nf4") || starts_with(notes.stored, "fp4");
  const std::string text = "the model's file holds its linear layers in " + notes.stored;
  const std::string type = asked == Quantization::none ? "" : name_of(asked);
  if (!type.empty() && starts_with(notes.stored, type) && book) return;  // its codes are kept
  if (!type.empty()) return warn(text + ": they are decoded, and quantised again to " + type);
  warn(text + ": they are decoded, to " + name_of(plan.storage) +
       (book && plan.job.adapter.type != AdapterType::none
            ? "; model.quantization: " + notes.stored.substr(0, 3) +
                  " keeps their codes, in a quarter of the memory"
            : ""));
}

// True if evaluation data are rows of the training data by their files.
bool evaluates_training_rows(const Plan& plan) {
  const std::vector<Share> train = shares_of(plan.job.data.train), eval = shares_of(plan.job.data.eval);
  const auto trained = [&](const Share& share) {
    return std::any_of(train.begin(), train.end(), [&](const Share& other) { return overlap(share, other); });
  };
  const bool same = !plan.eval.content_hash.empty() && plan.eval.content_hash == plan.train.content_hash;
  return !plan.job.data.eval.empty() && (same || std::any_of(eval.begin(), eval.end(), trained));
}

void warn_of_data(const Plan& plan, const Warn& warn) {
  const Job& job = plan.job;
  const std::vector<Share> train = shares_of(job.data.train);
  if (evaluates_training_rows(plan))
    warn(
        "data.eval names rows of data.train: eval_loss measures how well they were memorised, not what is "
        "learned about others");
  for (size_t i = 0; i < train.size(); ++i)
    if (std::any_of(train.begin(), train.begin() + static_cast<std::ptrdiff_t>(i),
                    [&](const Share& other) { return overlap(train[i], other); }))
      warn("data.train names " + job.data.train[i].path +
           " twice: its rows are trained twice in an epoch (weight: 2 says so in one entry)");
  const bool asked = is_given(plan, "train.global_batch_size");
  constexpr int64_t kUsualBatch = 32;  // below it the data are few, not the batch large
  if (asked && !draws_completions(job.objective.type()) &&
      *job.train.global_batch_size > std::max(kUsualBatch, plan.train.examples))
    warn("train.global_batch_size " + format_count(*job.train.global_batch_size) + " is more than the " +
         format_count(plan.train.examples) + " training examples: each step is a whole epoch");
  if (plan.train.pairs.other_prompts > 0)
    warn(format_count(plan.train.pairs.other_prompts) + " of " + format_count(plan.train.examples) +
         " pairs have different prompts before the chosen and the rejected answer: the prompts are "
         "compared too, not only the answers");
}

}  // namespace

std::vector<std::string> warnings_of(const Plan& plan, const PlanInput& input) {
  std::vector<std::string> warnings;
  const auto warn = [&](std::string text) { warnings.push_back(std::move(text)); };
  const Job& job = plan.job;
  warn_of_classes(plan, warn);
  for (const std::string& text : {input.device_warning, input.idle_cards, input.tokenizer_note})
    if (!text.empty()) warn(text);
  if (plan.train.estimated)
    warn("estimated from the first " + format_count(plan.train.rows) +
         " rows: steps, lengths and memory may change");
  if (plan.steps == 0)
    warn("only train.max_time ends this run: the schedule follows the clock, and steps are not known");
  if (job.train.max_steps && plan.steps < *job.train.max_steps && job.train.epochs)
    warn("train.epochs ends the run at step " + format_count(plan.steps) + ", before train.max_steps");
  if (plan.train.supervised_tokens == 0 && plan.train.examples > 0 && !draws_completions(job.objective.type()))
    warn("no token of the training data is trained");
  for (const auto& [name, data] : {std::pair("training", &plan.train), std::pair("evaluation", &plan.eval)})
    if (!data->unread_keys.empty())
      warn(std::string("ignored columns in the ") + name + " data: " + unread_text(*data) +
           "; ignore: [NAME] silences this");
  for (const auto& [column, rows] : plan.train.columns)
    if (rows == 0) warn("columns names " + column + ", which no row of the training data has");
  warn_of_config(input.model_notes, warn);
  warn_of_stored_base(plan, input.model_notes, warn);
  warn_of_rate(job, warn);
  warn_of_threads(plan, warn);
  warn_of_rank(plan, warn);
  warn_of_lambda(job, warn);
  warn_of_extremes(plan, warn);
  warn_of_data(plan, warn);
  for (const std::string& text : offload_warnings(plan)) warn(text);
  if (plan.engine == kNoEngine) warn("no engine computes on " + plan.device.name() + ": " + input.profile.engine.reason);
  if (plan.device.cuda && !plan.device.gpu.probed)
    warn("planned for a card that is not in this machine: " + plan.device.gpu.name);
  if (!input.profile.name.empty() && *job.train.precision != input.profile.precision.value)
    warn("train.precision " + name_of(*job.train.precision) + " overrides profile " + plan.profile +
         ", which uses " + name_of(input.profile.precision.value) + ": " + input.profile.precision.reason);
  return warnings;
}

std::vector<std::string> data_warnings(const Plan& plan, const DataFindings& findings) {
  std::vector<std::string> warnings;
  for (const DataFinding& finding : findings.found) {
    if (finding.check == "bare_prompt" && is_given(plan, "data.prompt_as")) continue;
    if (finding.check == "overlap" && evaluates_training_rows(plan)) continue;
    if (is_warning(finding)) warnings.push_back(sentence_of(finding));
  }
  warnings.insert(warnings.end(), findings.limits.begin(), findings.limits.end());
  return warnings;
}

}  // namespace forge
