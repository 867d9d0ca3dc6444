#include "core/plan/fit/run_memory.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/job/names.h"
#include "core/learn/objective/objective.h"
#include "core/lib/base/text.h"
#include "core/graph/layout.h"
#include "core/plan/stages/fp8.h"
#include "core/plan/stages/judge_plan.h"
#include "core/plan/stages/rollout_plan.h"
#include "core/plan/stages/value_plan.h"

namespace forge {
namespace {

ActivationShape shape_of(const Compute& plan, const StepChoice& step, const Inventory& inventory, const Fullest& fullest,
                         bool training) {
  const Job& job = plan.job;
  ActivationShape shape = model_shape(plan);
  static_cast<StepChoice&>(shape) = step;
  shape.lists = inventory.lists;
  shape.residual = residual_of(job);
  shape.capability = plan.device.gpu.compute_capability;
  shape.multiprocessors = multiprocessors_of(plan.device);
  shape.deterministic = job.train.deterministic;
  shape.instructions = instructions_of(plan.device.cpu);
  shape.bf16_tiles = !plan.device.cuda && shape.precision == Precision::bf16 && bf16_tiles(plan.device.cpu);
  shape.micro_batch_tokens = fullest.tokens;
  shape.longest_sequence = fullest.longest;
  shape.supervised_tokens = fullest.supervised;
  if (plan.model.reads_source()) {
    shape.micro_batch_tokens = fullest.supervised, shape.longest_sequence = fullest.longest_answer;
    shape.source_tokens = fullest.source, shape.longest_source = fullest.longest_source;
    shape.groups = fullest.groups;
  }
  shape.several_sequences = fullest.several, shape.texts = fullest.texts;
  shape.threads = plan.device.cuda ? 0 : *job.train.threads;
  shape.training = training;
  shape.sums_answers = objective_of(job.objective.type()).coupling != Coupling::token;
  return shape;
}

// Returns the fuller of two moments. Held lines have the size that the larger of the two needs, in
// both.
std::vector<MemoryLine> fuller(std::vector<MemoryLine> a, std::vector<MemoryLine> b) {
  std::vector<MemoryLine> result;
  for (const bool held : {true, false}) {
    const auto others = [&](const MemoryLine& line) { return line.held != held; };
    std::vector<MemoryLine> of_a = a, of_b = b;
    std::erase_if(of_a, others);
    std::erase_if(of_b, others);
    std::vector<MemoryLine>& more = total_bytes(of_a) >= total_bytes(of_b) ? of_a : of_b;
    result.insert(result.end(), more.begin(), more.end());
  }
  return result;
}

// Returns the maxima over both splits.
Fullest most_of(const Fullest& train, const Fullest& eval) {
  return {std::max(train.tokens, eval.tokens), std::max(train.supervised, eval.supervised), std::max(train.longest, eval.longest),
          train.several || eval.several, std::max(train.texts, eval.texts)};
}

// Returns the shape of a micro-batch of the base without the adapter, forward only.
ActivationShape base_shape(const Compute& plan, const StepChoice& step, const Inventory& inventory, const Fullest& most) {
  ActivationShape shape = shape_of(plan, step, inventory, most, false);
  shape.trained = {};
  shape.adapter.use_dora = false;
  shape.adapter.modules_to_save.clear();
  shape.recompute = {};
  shape.lists = inventory.base;
  return shape;
}

// Returns the line of the reference's own weights; none if it has the policy's.
std::vector<MemoryLine> saved_modules_lines(const Compute& plan, const std::vector<Parameter>& parameters) {
  int64_t saved = 0;
  for (const Parameter& parameter : parameters)
    if (parameter.trainable && !base_name(parameter).empty())
      saved += parameter.total() * bytes_of(*plan.job.train.precision);
  if (saved == 0) return {};
  return {{"reference: saved modules", saved, "the base's own weights besides those of adapter.modules_to_save"}};
}

// Returns the line of fp8's gate while the file's weights pass layer by layer
// (core/train/layer_by_layer.h), beyond `held` bytes, which do not exist yet.
MemoryLine file_pass_line(const Compute& plan, const RunModels& models, const StepChoice& step, const Fullest& most, int64_t held) {
  const Precision precision = *plan.job.train.precision;
  // A layer's weights count together, those outside of layers one by one.
  std::map<std::string, std::vector<int64_t>> ranges;
  for (const Parameter& parameter : base_parameters(plan.model))
    ranges[parameter.layer < 0 ? parameter.name : std::to_string(parameter.layer)].push_back(parameter.count());
  ActivationShape shape = base_shape(plan, step, models.policy, most);
  shape.quantization = Quantization::none;
  const int64_t activations = total_bytes(models.plain->op_by_op_lines(shape));
  int64_t fullest = 0;
  for (auto& [range, counts] : ranges) {
    const int64_t weights = std::accumulate(counts.begin(), counts.end(), int64_t{0}) * bytes_of(precision);
    // Tensors that are converted are in fp32 first, one a thread.
    std::sort(counts.rbegin(), counts.rend());
    const auto at_once = plan.device.cuda ? 0 : std::min(counts.size(), static_cast<size_t>(std::max<int64_t>(1, *plan.job.train.threads)));
    const int64_t reading = 4 * std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(at_once), int64_t{0});
    fullest = std::max(fullest, weights + std::max(reading, activations));
  }
  const DataSummary& data = plan.eval.examples > 0 ? plan.eval : plan.train;
  const int64_t tokens = std::min(kFp8GateTokens + most.tokens, data.tokens), element = residual_of(plan.job) == Residual::fp32 ? 4 : bytes_of(precision);
  const int64_t batch = 8 + plan.model.angles() * bytes_of(precision) + 20;  // ids, angles, targets
  const int64_t bytes = fullest + tokens * (plan.model.hidden_size * element + batch);
  return {"fp8 gate: the base as in its file", bytes - held, "a layer at a time, and the stream of " + format_count(tokens) + " tokens"};
}

// The lines of a run as they are added up: those that are held, and the fullest moment of the rest.
// Work that runs in turn shares an arena.
struct Moments {
  std::vector<MemoryLine> held, moving;

  void hold(const std::vector<MemoryLine>& lines) { held.insert(held.end(), lines.begin(), lines.end()); }
  // Takes the lines of another moment if they are more.
  void consider(std::vector<MemoryLine> other) {
    if (total_bytes(other) > total_bytes(moving)) moving = std::move(other);
  }
  // Takes the lines of work that runs in turn with what is there already.
  void share(const std::vector<MemoryLine>& lines) {
    if (!lines.empty()) moving = fuller(std::move(moving), lines);
  }
};

// Returns the lines of the judges' batches; their weights are held.
std::vector<MemoryLine> judging_lines(const Compute& plan, const RunModels& models, Moments& moments) {
  std::vector<MemoryLine> judging;
  for (const JudgeModel& judge : models.policy.judges) {
    moments.hold(judge_fixed_lines(plan, judge));
    judging = fuller(std::move(judging), models.provider->activation_lines(judge_shape(plan, judge)));
  }
  return judging;
}

}  // namespace

FixedMemory fixed_memory(const Compute& plan, const std::vector<Parameter>& parameters, Offload state) {
  const Precision precision = *plan.job.train.precision;
  const bool tied = plan.model.tie_word_embeddings;
  Job job = plan.job;
  job.optimizer.offload = state;
  FixedMemory fixed{fixed_lines(parameters, job, precision, plan.storage, tied), host_lines(parameters, job),
                    update_lines(parameters, job, precision, tied), {}, {}};
  if (has_value_network(plan)) {
    Compute value = value_plan(plan);
    value.job.optimizer.offload = state;
    const std::vector<Parameter> own = parameters_of(value);
    for (MemoryLine& line : named("value: ", host_lines(own, value.job))) fixed.on_host.push_back(std::move(line));
    // The frozen base is shared.
    fixed.value = named("value: ", fixed_lines(own, value.job, precision, plan.storage, false),
                        {"frozen weights", "quantised weights"});
  }
  // A GPU's tensors are converted in the host's memory.
  if (!plan.device.cuda) fixed.loading = loading_lines(parameters, job, precision, tied, *plan.job.train.threads);
  return fixed;
}

std::vector<MemoryLine> lines_on_host(const Compute& plan, const RunModels& models, const Trial& trial) {
  std::vector<MemoryLine> lines = models.fixed.on_host;
  if (trial.activations != Offload::host) return lines;
  const BatchRoom& batch = trial.training_batch;
  const StepSizes sizes{.tokens = batch.source > 0 ? batch.targets : batch.tokens, .targets = batch.targets,
                        .compute_bytes = bytes_of(*plan.job.train.precision), .source = batch.source};
  const int64_t bytes = host_bytes(models.policy.lists->training(trial.step), sizes);
  if (bytes > 0) lines.push_back({kLayerInputs, bytes, format_count(sizes.tokens) + " tokens in " + name_of(*plan.job.train.precision) + ", of all layers that training passes through except the last"});
  return lines;
}

std::vector<MemoryLine> memory_lines(const Rollouts& plan, const RunModels& models, const Trial& trial, const Fullest& train, const Fullest& eval) {
  const Provider& provider = *models.provider;
  const StepChoice& step = trial.step;
  Moments moments{models.fixed.held, provider.activation_lines(shape_of(plan, step, models.policy, train, true))};
  if (eval.tokens > 0)
    moments.moving = fuller(std::move(moments.moving), provider.activation_lines(shape_of(plan, step, models.policy, eval, false)));
  if (models.value) {
    moments.hold(models.fixed.value);
    const StepChoice own = value_step(plan, step);
    moments.share(provider.activation_lines(shape_of(*models.value_plan, own, *models.value, train, true)));
  }
  moments.share(judging_lines(plan, models, moments));
  const Fullest most = most_of(train, eval);
  if (computes_reference(plan)) {
    // The reference's own weights are held beside all else; its step shares the memory of the
    // policy's, and comes before it.
    moments.hold(saved_modules_lines(plan, models.policy.parameters));
    const ActivationShape base = base_shape(plan, step, models.policy, most);
    moments.share(named("reference: ", provider.activation_lines(base), {"objective"}));
  }
  moments.moving.insert(moments.moving.end(), models.fixed.update.begin(), models.fixed.update.end());
  if (draws_completions(plan.job.objective.type())) {
    // The decoder keeps its arena.
    moments.hold(rollout_lines(plan, provider, shape_of(plan, step, models.policy, {}, false)));
  }
  // The gate's pass in fp8 needs no more than a step: what it holds twice is no more than
  // gradients, which do not exist yet.
  if (has_fp8_gate(plan.job) && models.plain) moments.consider({file_pass_line(plan, models, step, most, total_bytes(moments.held))});
  moments.consider(models.fixed.loading);
  moments.hold(moments.moving);
  return std::move(moments.held);
}

}  // namespace forge
