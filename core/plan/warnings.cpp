#include "core/plan/warnings.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <utility>

#include "core/base/text.h"
#include "core/config/names.h"
#include "core/data/prepare.h"
#include "core/objective/objective.h"
#include "core/plan/memory/offload.h"

namespace forge {
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
  for (const std::string& text : offload_warnings(plan)) warn(text);
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
