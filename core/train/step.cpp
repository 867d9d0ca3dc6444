#include "core/train/step.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "core/lib/base/clock.h"
#include "core/lib/base/text.h"
#include "core/train/optim/schedule.h"
#include "core/data/batch/packing.h"
#include "core/lib/tensor/device.h"
#include "core/train/pass.h"
#include "core/train/reference.h"
#include "core/train/other_networks.h"

namespace forge {
namespace {

// Dynamic loss scale for fp16: halve on overflow, double after this many good steps.
constexpr int64_t kScaleGrowthSteps = 2000;
constexpr double kInitialScale = 65536, kSmallestScale = 1.0 / 16384;
// Consecutive skipped steps after which a run counts as diverged, with on_nan: skip or a collapsing
// loss scale.
constexpr int64_t kMostSkips = 50;

BatchTensors training_tensors(const Session& session, const Batch& batch, int64_t step) {
  BatchTensors tensors = to_tensors(batch, session.model.spec, session.model.type, session.device);
  tensors.training = true;
  tensors.rows.seed = static_cast<uint64_t>(session.job.seed);
  tensors.rows.step = step;
  tensors.source.rows.seed = tensors.rows.seed, tensors.source.rows.step = step;
  return tensors;
}

double rate_factor(const Session& session, const TrainState& state) {
  const ScheduleConfig& schedule = session.job.schedule;
  if (session.plan.steps > 0) return learning_rate_factor(schedule, state.step, session.plan.steps);
  return learning_rate_factor_by_clock(schedule, state.step, state.run_seconds, session.job.train.max_time.value());
}

// Returns what may help a run whose numbers are not finite.
std::string remedy(const Session& session, const TrainState& state) {
  if (state.updates == 0 && state.value_updates == 0)
    return "no step has changed the weights, so the learning rate is not the cause: look at the rows with `forge data` and "
           "at the model's own weights, or take a wider train.precision";
  const std::string slower = "lower optimizer.learning_rate, add warmup";
  if (session.plan.loss_scaling == LossScaling::dynamic) return slower + ", or set train.precision: bf16";
  return slower + (session.job.train.on_nan == OnNan::skip ? ", or take a wider train.precision" : ", or set train.on_nan: skip");
}

[[noreturn]] void diverged(const Session& session, const TrainState& state, const StepStats& stats, const std::string& why) {
  throw Error(ErrorKind::diverged, "step " + std::to_string(state.step + 1) + ": " + why + " (loss " +
                                       format_number(stats.loss) + ", gradient norm " + format_number(stats.grad_norm) + ")")
      .hint(remedy(session, state));
}

// Counts a non-finite step, and lowers a dynamic loss scale. Throws Error(diverged) if the run
// cannot go on.
void skip_step(const Session& session, TrainState& state, StepStats& stats) {
  stats.skipped = true;
  ++state.consecutive_skips;
  if (session.plan.loss_scaling == LossScaling::dynamic) {
    state.loss_scale /= 2;
    state.steps_since_overflow = 0;
    if (state.loss_scale < kSmallestScale) diverged(session, state, stats, "the loss scale of fp16 collapsed");
  } else if (session.job.train.on_nan == OnNan::stop) {
    diverged(session, state, stats, "not finite");
  }
  if (state.consecutive_skips > kMostSkips) diverged(session, state, stats, std::to_string(kMostSkips) + " steps in a row were not finite");
}

// Returns the tokens of the chosen answers of these atoms; 0 if nothing is divided by it.
double chosen_tokens(const DataSet& data, const ObjectiveConfig& objective, const std::vector<int64_t>& atoms) {
  int64_t tokens = 0;
  if (objective.as<LikelihoodBeside>().nll_mean == NllMean::token)
    for (const int64_t atom : atoms) tokens += data.supervised(data.examples_of(atom)[0]);
  return static_cast<double>(tokens);
}

}  // namespace

void begin_update(Session& session, TrainState& state) {
  const bool scaled = session.plan.loss_scaling == LossScaling::dynamic;
  if (scaled && state.step == 0 && state.loss_scale == 1) state.loss_scale = kInitialScale;
  session.trainables->zero_grad();
  if (session.value) session.value->zero_grad();
}

void finish_update(Session& session, TrainState& state, StepStats& stats, const std::function<double()>& loss) {
  const GradientVerdict& verdict =
      session.network->measure(*session.optimizer, 1 / state.loss_scale, session.job.train.max_grad_norm);
  stats.grad_norm = verdict.norm();
  if (loss) stats.loss = loss();
  const bool value_finite = !session.value || session.value->measure(1 / state.loss_scale, session.job.train.max_grad_norm).finite();
  double factor = rate_factor(session, state);
  stats.learning_rate = session.job.optimizer.learning_rate * factor;
  const bool scaled = session.plan.loss_scaling == LossScaling::dynamic;
  if (!std::isfinite(stats.loss) || !verdict.finite() || !value_finite) {
    skip_step(session, state, stats);
  } else {
    if (!stats.rests) session.network->update(*session.optimizer, stats.learning_rate, ++state.updates);
    if (session.value) session.value->update(stats.learning_rate, ++state.value_updates);
    state.consecutive_skips = 0;
    if (scaled && ++state.steps_since_overflow >= kScaleGrowthSteps) {
      state.loss_scale *= 2;
      state.steps_since_overflow = 0;
    }
  }
}

StepStats train_step(Session& session, const DataSet& data, const std::vector<std::vector<int64_t>>& micro_batches,
                     TrainState& state, const StopFlag& stop) {
  auto start = Clock::now();
  StepStats stats;
  std::vector<Batch> batches;
  double weights = 0;
  const bool by_token = objective_of(session.job.objective.type()).coupling == Coupling::token;
  std::vector<int64_t> all_atoms;
  int64_t trained_tokens = 0;
  for (const auto& atoms : micro_batches) {
    batches.push_back(make_batch(data, atoms));
    all_atoms.insert(all_atoms.end(), atoms.begin(), atoms.end());
    for (float weight : batches.back().loss_weights) weights += weight;
    stats.examples += static_cast<int64_t>(atoms.size());
    stats.tokens += batches.back().all_tokens();
    stats.supervised_tokens += batches.back().supervised_tokens();
    if (batches.back().supervised_tokens() > 0) trained_tokens += batches.back().tokens();
  }
  stats.data_seconds = seconds_since(start);
  begin_update(session, state);
  const StepScale scale{by_token ? weights : static_cast<double>(stats.examples), state.loss_scale,
                        chosen_tokens(data, session.job.objective, all_atoms), divergence_of(session, data, all_atoms, stop),
                        static_cast<double>(trained_tokens)};
  std::vector<BatchLoss> losses;
  for_each_part(session.world, batches, stop, [&](const Batch& batch) {
    if (batch.supervised_tokens() == 0) return;
    const BatchTensors tensors = training_tensors(session, batch, state.step);
    losses.push_back(session.network->forward_backward(
        tensors, scale, session.reference ? session.reference->sums(data, batch, tensors) : std::vector<double>()));
    const BatchLoss& loss = losses.back();
    add(stats.metrics, loss.metrics);
    stats.reference_gap = std::max(stats.reference_gap, loss.reference_gap);
  });
  // There is no synchronize() here: the update runs while the next step is prepared.
  finish_update(session, state, stats, [&] {
    double sum = 0;
    for (const BatchLoss& loss : losses) sum += loss.later ? loss.loss + loss.later() : loss.loss;
    return sum / scale.divisor;
  });
  stats.seconds = seconds_since(start);
  return stats;
}

EvalStats evaluate(const World& world, Network& network, const Model& model, const DataSet& data, int64_t batch_tokens,
                   const StopFlag& stop, const ObjectiveConfig& objective, Reference* reference, double divergence) {
  auto start = Clock::now();
  EvalStats stats;
  stats.examples.resize(static_cast<size_t>(data.size()));
  double loss = 0;
  const bool by_token = objective_of(objective.type()).coupling == Coupling::token;
  const std::vector<int64_t> order = numbers_below(data.atoms());
  const auto atoms = static_cast<double>(std::max<int64_t>(1, data.atoms()));
  const StepScale scale{.divisor = atoms, .chosen_tokens = chosen_tokens(data, objective, order), .divergence = divergence};
  for_each_part(world, fill_in_order(order, data.atom_lengths(), batch_tokens), stop, [&](const std::vector<int64_t>& part) {
    const Batch batch = make_batch(data, part);
    const BatchTensors tensors = to_tensors(batch, model.spec, model.type, model.device);
    const std::vector<SequenceSums> answers = network.answers(tensors);
    for (size_t i = 0; i < answers.size(); ++i) {
      stats.examples[static_cast<size_t>(batch.example_ids[i])] = {answers[i].tokens, -answers[i].logp};
      if (by_token) loss -= answers[i].logp;
      stats.supervised_tokens += answers[i].tokens;
    }
    stats.tokens += batch.all_tokens();
    if (by_token) return;
    const SequenceLoss compared =
        answers_loss(answers, objective, reference ? reference->sums(data, batch, tensors) : std::vector<double>(), scale);
    loss += compared.loss;
    add(stats.metrics, compared.metrics);
  });
  stats.loss = loss / (by_token ? static_cast<double>(std::max<int64_t>(1, stats.supervised_tokens)) : atoms);
  synchronize(model.device);
  stats.seconds = seconds_since(start);
  return stats;
}

void add(StepWindow& window, const StepStats& stats) {
  ++window.steps;
  window.skipped += stats.skipped;
  if (!stats.skipped) {
    window.loss += stats.loss;
    window.ratio_most = std::max(window.ratio_most, stats.ratio_most);
    for (const auto& [name, mean] : stats.metrics) {
      window.sums[name] += mean.sum;
      window.counts[name] += mean.count;
    }
  }
  window.examples += stats.examples;
  window.tokens += stats.tokens;
  window.supervised_tokens += stats.supervised_tokens;
  window.seconds += stats.seconds;
  window.data_seconds += stats.data_seconds;
}

Json step_facts(const StepWindow& window, const StepStats& last) {
  const int64_t trained = window.steps - window.skipped;
  Json facts{{"loss", trained > 0 ? window.loss / static_cast<double>(trained) : last.loss},
             {"learning_rate", last.learning_rate},
             {"grad_norm", last.grad_norm},
             {"examples", window.examples},
             {"tokens", window.tokens},
             {"supervised_tokens", window.supervised_tokens},
             {"tokens_per_second", static_cast<double>(window.tokens) / window.seconds},
             {"step_seconds", window.seconds},
             {"data_wait_seconds", window.data_seconds},
             {"skipped", window.skipped > 0}};
  Metrics metrics;
  for (const auto& [name, sum] : window.sums) metrics[name] = {sum, window.counts.at(name)};
  for (const auto& [name, mean] : means_of(metrics)) facts[name] = mean;
  if (window.ratio_most > 0) facts["ratio_most"] = window.ratio_most;
  if (window.reference_gap_step0 >= 0) facts["reference_gap_step0"] = window.reference_gap_step0;
  return facts;
}

}  // namespace forge
