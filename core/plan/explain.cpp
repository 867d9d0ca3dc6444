#include "core/plan/explain.h"

#include <algorithm>
#include <cmath>

#include "core/data/examples/data_summary.h"
#include "core/job/field.h"
#include "core/job/job_json.h"
#include "core/job/names.h"
#include "core/learn/objective/objective.h"
#include "core/lib/base/text.h"
#include "core/model/families/adapter_sites.h"
#include "core/model/families/modules.h"
#include "core/model/graph/print.h"
#include "core/plan/stages/fp8.h"
#include "core/plan/stages/inventory.h"
#include "core/plan/stages/rollout_plan.h"
#include "core/plan/stages/value_plan.h"

namespace forge {
namespace {

using Table = std::vector<std::vector<std::string>>;

std::string shown(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    std::vector<std::string> items;
    for (const Json& item : value) items.push_back(shown(item));
    return items.empty() ? "[]" : join(items, ", ");
  }
  return value.is_number_float() ? format_number(value.get<double>()) : dump_json(value);
}

std::string indented(const std::string& text) {
  std::string result;
  for (const std::string& line : split(text, '\n'))
    if (!line.empty()) result += "  " + line + "\n";
  return result;
}

std::string section(const std::string& title, const Table& rows) {
  return rows.empty() ? "" : "\n" + title + "\n" + indented(format_table(rows));
}

Table device_rows(const Device& device) {
  const CpuInfo& cpu = device.cpu;
  Table rows{
      {"processor", cpu.name + ", " + std::to_string(cpu.cores) + (cpu.cores == 1 ? " core" : " cores") +
                        (cpu.isa.empty() ? "" : " (" + join(cpu.isa, " ") + ")") +
                        (cpu.stated.empty() ? "" : ", stated by " + cpu.stated)},
      {"memory", format_bytes(cpu.available_bytes) + " free of " + format_bytes(cpu.memory_bytes)}};
  if (!device.cuda) return rows;
  const GpuInfo& gpu = device.gpu;
  rows.push_back({"GPU", gpu.name + ", compute capability " + capability_text(gpu.compute_capability) +
                             (gpu.probed ? "" : " (not in this machine)")});
  rows.push_back({"GPU memory", format_bytes(gpu.free_bytes) + " free of " + format_bytes(gpu.memory_bytes)});
  if (!gpu.driver.empty()) rows.push_back({"driver", gpu.driver});
  return rows;
}

// Returns the rows of the job's values. Sections only contain other keys and have no row.
Table value_rows(const Plan& plan, bool all) {
  Table rows;
  for (const std::string& key : dotted_keys(job_fields())) {
    const Field* field = find_field(key);
    if (!field || field->kind == FieldKind::section || inside_list(key)) continue;
    if (field->kind == FieldKind::sections) continue;
    const auto found = plan.origins.find(key);
    const ValueOrigin origin =
        found == plan.origins.end() ? ValueOrigin{OriginKind::unset, "default", ""} : found->second;
    if (!all && origin.kind == OriginKind::unset && origin.reason.empty()) continue;
    rows.push_back({key, shown(value_of(plan.job, key)), origin.source, origin.reason});
  }
  return rows;
}

Table memory_rows(const Plan& plan) {
  Table rows;
  for (const MemoryLine& line : plan.memory)
    rows.push_back({line.name, format_bytes(line.bytes), line.formula});
  rows.push_back({"predicted peak", format_bytes(plan.predicted_peak_bytes),
                  "of " + format_bytes(plan.available_bytes) + " available on " + plan.device.name()});
  for (const MemoryLine& line : plan.host_memory) rows.push_back({line.name + ", on the host", format_bytes(line.bytes), line.formula});
  return rows;
}

std::string cut_text(const DataSummary& data) {
  std::string text;
  const auto add = [&](int64_t count, const char* what) {
    if (count > 0) text += ", " + format_count(count) + " " + what;
  };
  add(data.truncated, "cut");
  add(data.cuts.prompts, "of their prompts");
  add(data.cuts.completions, "of their completions");
  add(data.cuts.tokens, "tokens cut away");
  add(data.split, "split");
  add(data.dropped, "dropped");
  add(data.cuts.dropped_tokens, "tokens dropped");
  add(data.skipped, "skipped");
  add(data.untrained, "without a trained token");
  add(data.cuts.unsaid, "parts of answers left out by the chat template (forge data names them)");
  return text;
}

std::vector<std::string> data_row(const std::string& name, const DataSummary& data) {
  return {name, format_count(data.examples) + " examples of " + format_count(data.rows) + " rows" +
                    (data.format.empty() ? "" : " (" + data.format + ")") + ", " + format_count(data.tokens) +
                    " tokens, " + format_count(data.supervised_tokens) + " trained, longest " +
                    format_count(data.longest) + cut_text(data) + (data.estimated ? " (estimated)" : "")};
}

std::string percent(double share) { return format_number(std::round(share * 1000) / 10) + " %"; }

// Returns "packed: 3.2 micro-batches a step, 97.1 % of 4,096 tokens used".
std::vector<std::string> packing_row(const Plan& plan) {
  const TrainConfig& train = plan.job.train;
  const double batches = std::round(plan.packing.micro_batches_per_step * 10) / 10;
  std::string text = format_number(batches) + (batches == 1 ? " micro-batch" : " micro-batches") +
                     " a step, " + percent(plan.packing.micro_batch_fill) + " of " +
                     format_count(*train.micro_batch_tokens) + " tokens used";
  if (train.global_batch_tokens)
    text += "; steps use " + percent(plan.packing.step_fill) + " of " +
            format_count(*train.global_batch_tokens) + " tokens";
  else if (plan.job.data.packing && plan.packing.micro_batch_fill < 0.98)
    text += "; a step of " + format_count(*train.global_batch_size) +
            " examples does not fill its last micro-batch; train.global_batch_tokens would fill it";
  return {plan.job.data.packing ? "packing" : "batches (no packing)", text};
}

std::string time_text(const PlannedTime& time) {
  if (time.step_seconds <= 0) return time.reason;
  return format_seconds(time.step_seconds) + " a step" +
         (time.run_seconds > 0 ? ", " + format_seconds(time.run_seconds) + " for all steps" : "") + " (" +
         time.reason + ")";
}

// Returns "dpo −log σ(βz); β 0.1; over 32 pairs of each step; reference: …".
std::string objective_text(const Plan& plan) {
  const ObjectiveConfig& objective = plan.job.objective;
  const Objective& row = objective_of(objective.type());
  if (row.coupling == Coupling::policy) return name_of(objective.type()) + " " + row.formula(objective) + "; " + updates_text(plan);
  const char* divisor = row.coupling == Coupling::pair ? "pairs" : row.coupling == Coupling::answer ? "answers" : "trained tokens";
  std::string text = name_of(objective.type()) + " " + row.formula(objective) + "; divided by the " + divisor + " of the whole step";
  if (!row.has_reference) return text;
  const bool kept = *objective.as<Referenced>().reference_cache;
  text += objective.as<Referenced>().reference == ReferenceModel::base ? "; reference: the base without the adapter"
                                                      : "; reference: the model as training begins";
  const int64_t bytes = 4 * (plan.train.supervised_tokens + plan.eval.supervised_tokens);
  if (row.coupling == Coupling::answer) text += ", also for z₀, which costs one more forward of every answer";
  return text + (kept ? ", kept by token (" + format_bytes(bytes) + ", one forward of the data before the first step)"
                      : ", one more forward of every micro-batch");
}

// Returns "correct 1 (numeric) · brief measured only (length)".
std::string rewards_text(const Job& job) {
  std::vector<std::string> parts;
  for (const RewardConfig& reward : job.rewards)
    parts.push_back(reward.name + " " + (reward.weight == 0 ? "measured only" : format_number(reward.weight)) + " (" +
                    name_of(reward.type()) + (reward.needs ? ", where " + *reward.needs + " is above 0" : "") + ")");
  return join(parts, " · ") + (job.reward_mix.normalize_each ? "; each standardised in its group" : "");
}

Table run_rows(const Plan& plan) {
  Table rows{data_row("training data", plan.train)};
  if (plan.train.pairs.longest > 0) rows.push_back({"pairs", pairs_text(plan.train.pairs, plan.train.examples)});
  if (plan.train.pairs.desirable + plan.train.pairs.undesirable > 0) rows.push_back({"answers", classes_text(plan.train.pairs) + "; by weight " +
                                   format_number(std::round(100 * class_ratio(plan)) / 100) + " to 1"});
  if (plan.eval.examples > 0) rows.push_back(data_row("evaluation data", plan.eval));
  if (plan.packing.micro_batches_per_step > 0) rows.push_back(packing_row(plan));
  rows.push_back({"objective", objective_text(plan)});
  if (draws_completions(plan.job.objective.type())) {
    rows.push_back({"rollout", rollout_text(plan)});
    rows.push_back({"rewards", rewards_text(plan.job)});
    if (has_value_network(plan)) rows.push_back({"value", value_text(plan)});
    if (needs_base(plan.job)) rows.push_back({"base", "one more forward of every completion, without the adapter"});
  }
  rows.push_back({"steps", (plan.steps > 0 ? format_count(plan.steps) : "until train.max_time") + " (" +
                               format_count(plan.steps_per_epoch) + " an epoch)" +
                               (plan.train.estimated ? ", estimated" : "")});
  rows.push_back({"time", time_text(plan.time)});
  rows.push_back({"disk", "up to " + format_bytes(plan.disk_bytes) + ", one checkpoint " +
                              format_bytes(plan.checkpoint_bytes)});
  return rows;
}

std::string window_of(const ModelSpec& m) {
  if (m.sliding_window == 0 && m.attention_chunk == 0) return "";
  const auto windowed = m.num_layers - static_cast<int64_t>(m.full_layers.size());
  const std::string what = m.sliding_window > 0 ? ", window of " + format_count(m.sliding_window) : ", chunks of " + format_count(m.attention_chunk);
  return what + " tokens" +
         (m.full_layers.empty() ? "" : " in " + format_count(windowed) + " of them");
}

// Returns ", 16,488 parameters; peft's under transformers 5 adapts 24 of them …" where the two
// differ, else nothing.
std::string peft_text(const TargetMatch& match) {
  if (match.peft_parameters == match.parameters) return "";
  return ", " + format_count(match.parameters) + " parameters; peft's under transformers 5 adapts " + format_count(match.peft_modules) + " of them, " +
         format_count(match.peft_parameters) + " parameters: experts, which it holds in one tensor a layer, and routers are no linear layers there";
}

Table model_rows(const Plan& plan) {
  const ModelSpec& m = plan.model;
  const std::string encoder = m.reads_source() ? format_count(m.encoder_layers) + " encoder and " : "";
  Table rows{{"model", m.architecture + ", " + encoder + format_count(m.num_layers) + (m.reads_source() ? " decoder" : "") + " layers of " +
                           format_count(m.hidden_size) + ", vocabulary " + format_count(m.vocab_size) +
                           window_of(m)},
             {"parameters", format_count(plan.parameters.total) + ", " +
                                format_count(plan.parameters.trainable) + " trainable"}};
  const AdapterConfig& adapter = plan.job.adapter;
  const bool all_linear = adapter.type != AdapterType::none && adapter.target_modules == std::vector<std::string>{"all-linear"};
  if (!m.wrapper.empty())
    rows.push_back({"towers", "left untouched in the file, and not counted: only the language model is trained, on text" +
                                  std::string(all_linear ? "; peft's all-linear adapts the towers' linear layers too" : "")});
  if (m.index_topk > 0)
    rows.push_back({"indexer", "chooses every token of a text of up to " + format_count(m.index_topk) +
                                   " tokens, so it is not computed and its weights are not trained; longer texts are refused"});
  for (const TargetMatch& match : plan.targets)
    rows.push_back({"adapter target", match.target + ": " + format_count(match.modules) + " linear layers" + peft_text(match)});
  const std::vector<ModuleUse> trained =
      plan.job.adapter.type == AdapterType::none
          ? modules_of(plan.model, Experts::in_rows)
          : saved_modules(plan.model, plan.job.adapter, Experts::in_rows);
  const bool embedding = std::any_of(trained.begin(), trained.end(),
                                     [](const ModuleUse& module) { return module.kind == ModuleKind::embedding; });
  if (const int64_t row = frozen_embedding_row(plan.model); embedding && row >= 0)
    rows.push_back(
        {"embedding", "token " + format_count(row) +
                          " (pad_token_id) gets no gradient, as in transformers (padding_idx)" +
                          (plan.model.tie_word_embeddings && plan.job.adapter.type == AdapterType::none
                               ? "; the tied head's reaches it"
                               : "")});
  rows.push_back({"engine", plan.engine + ", provider " + plan.provider + ", frozen weights in " +
                                name_of(plan.storage) + ", loss scaling " + name_of(plan.loss_scaling) +
                                (plan.step.fused_head ? ", head without logits" : "") +
                                (plan.job.model.quantization == Quantization::fp8 ? ", frozen linear layers multiplied in fp8" : "") +
                                (plan.step.folded_adapters ? ", adapters in the products of their weights" : "")});
  if (has_fp8_gate(plan.job))
    rows.push_back({"fp8 gate", "before the first step the base's loss in fp8 is compared with the loss of the file's weights, on " + format_count(kFp8GateTokens) +
                                    " tokens of data." + (plan.eval.examples > 0 ? "eval" : "train") + "; the run ends unless they differ by less than " +
                                    format_number(100 * plan.job.model.fp8_tolerance) + " % (model.fp8_tolerance)"});
  for (const AttentionUse& use : plan.attention)
    rows.push_back({"attention", name_of(use.kernel) +
                                     (plan.attention.size() > 1 ? " in layers " + use.layers : std::string()) + ": " + use.reason});
  return rows;
}

Table warning_rows(const Plan& plan) {
  Table rows;
  for (const std::string& warning : plan.warnings) rows.push_back({"! " + warning});
  return rows;
}

}  // namespace

std::string explain(const Plan& plan, bool all) {
  return "plan of " + plan.job.name + "\n" + section("device", device_rows(plan.device)) +
         section("model", model_rows(plan)) + section("run", run_rows(plan)) +
         section(all ? "values (key, value, from, why)"
                     : "values (key, value, from, why; --all shows the other defaults too)",
                 value_rows(plan, all)) +
         section("memory", memory_rows(plan)) + section("warnings", warning_rows(plan));
}

std::string explain_profile(const Device& device, const Profile& profile) {
  const Table choices{
      {"precision", name_of(profile.precision.value), profile.precision.reason},
      {"storage", name_of(profile.storage.value), profile.storage.reason},
      {"loss_scaling", profile.loss_scaling.value, profile.loss_scaling.reason},
      {"residual", name_of(profile.residual.value), profile.residual.reason},
      {"attention", profile.attention.value, profile.attention.reason},
      {"engine", profile.engine.value, profile.engine.reason},
      {"micro_batch_tokens", format_count(profile.micro_batch_tokens.value), profile.micro_batch_tokens.reason},
      {"smallest_micro_batch_tokens", format_count(profile.smallest_micro_batch_tokens.value),
       profile.smallest_micro_batch_tokens.reason},
      {"reserve", format_bytes(profile.reserve_bytes.value), profile.reserve_bytes.reason}};
  return "profile " + profile.name + ": " + profile.title + "\n" + section("device", device_rows(device)) +
         section("rule", {{profile.rule}}) + section("choices (value, why)", choices);
}

std::string explain_step(const Plan& plan, const Provider& provider) {
  const Inventory inventory = inventory_of(plan);
  const int64_t targets = plan.training_batch.targets;
  const bool source = plan.model.reads_source();
  const StepSizes sizes{.tokens = source ? targets : plan.training_batch.tokens,
                        .targets = targets,
                        .compute_bytes = bytes_of(*plan.job.train.precision),
                        .threads = plan.device.cuda ? 1 : *plan.job.train.threads,
                        .gpu = plan.device.cuda,
                        .source = plan.training_batch.source,
                        .multiprocessors = multiprocessors_of(plan.device),
                        .capability = plan.device.gpu.compute_capability,
                        .deterministic = plan.job.train.deterministic,
                        .aten = provider.aten};
  const double length =
      static_cast<double>(plan.train.tokens) / static_cast<double>(std::max<int64_t>(1, plan.train.examples));
  const std::string batch = "A micro-batch of " + format_count(plan.training_batch.tokens) + " tokens, " + format_count(sizes.targets) +
                            " of them supervised, in " + name_of(*plan.job.train.precision);
  const Graph& graph = inventory.lists->training(plan.step);
  const Layout layout = lay_out(graph, sizes, provider.workspace);
  return batch + ", in an arena of " + format_bytes(layout.bytes) + "; computed again: " + describe(plan.step.recompute) + ".\n" +
         print(graph, sizes, length, &layout);
}

}  // namespace forge
