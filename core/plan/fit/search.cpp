#include "core/plan/fit/search.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/graph/op_record.h"
#include "core/plan/fit/offload.h"
#include "core/plan/stages/step_choice.h"
#include "core/plan/stages/value_plan.h"

namespace forge {

MicroBatch micro_batch_of(const Schedule& plan, int64_t tokens) {
  const int64_t mean = std::max<int64_t>(1, plan.train.tokens / std::max<int64_t>(1, plan.train.examples)), most = *plan.job.train.global_batch_size;
  if (plan.job.data.packing) return {tokens, std::clamp<int64_t>(tokens / mean, 1, most)};
  const int64_t examples = std::clamp<int64_t>(tokens / longest_of(plan), 1, most);
  return {examples * longest_of(plan), examples};
}

std::vector<int64_t> sizes(const Schedule& plan, int64_t from, int64_t to) {
  std::vector<int64_t> list;
  const int64_t least = longest_of(plan);
  for (int64_t tokens = std::max(from, least);; tokens = std::max(tokens / 2, least)) {
    list.push_back(tokens);
    if (tokens <= std::max(to, least)) return list;
  }
}

namespace {

// The models of a plan and what could be computed again in them, wherever activations and state
// lie.
struct Models {
  RunModels run;                     // without fixed lines
  std::vector<RecomputeUnit> units;  // cheapest first
  double forward_flops = 0;
  Recomputed selective, full;  // by the policies of that name

  const Graph& forward() const { return run.policy.lists->forward(); }
};

Models models_of(const Schedule& plan, const Search& search) {
  Models models;
  models.run.policy = inventory_of(plan), models.run.provider = search.provider,
  models.run.plain = search.plain;
  const double length = static_cast<double>(plan.train.tokens) /
                        static_cast<double>(std::max<int64_t>(1, plan.train.examples));
  const StepSizes sizes{.tokens = 1024,
                        .targets = 1024,
                        .compute_bytes = bytes_of(*plan.job.train.precision),
                        .source = 1024};
  const Graph& forward = models.forward();
  models.units = recompute_units(forward, sizes, length);
  for (const Op& op : forward.ops)
    models.forward_flops += cost_of(forward, op, sizes, length).flops;
  models.selective = recomputed_by(forward, Checkpointing::selective);
  models.full = recomputed_by(forward, Checkpointing::full);
  if (!has_value_network(plan)) return models;
  models.run.value_plan = value_plan(plan);
  models.run.value = own_inventory(*models.run.value_plan);
  return models;
}

RunModels with_state(RunModels models, const Schedule& plan, Offload state) {
  models.fixed = fixed_memory(plan, models.policy.parameters, state);
  return models;
}

// A try of a search with what is computed again in it: the first units, or a fixed choice.
class Recomputation {
 public:
  Recomputation(const Schedule& plan, const Search& search, const Models& known, Trial start)
      : plan_(plan),
        search_(search),
        known_(known),
        models_(with_state(known.run, plan, start.state)),
        trial_(std::move(start)) {}

  const Trial& trial() const { return trial_; }

  // True if the memory that is held in any case leaves room for a micro-batch.
  bool has_room() const { return total_bytes(models_.fixed.held) < search_.available_bytes; }

  // Takes a micro-batch: its fullest ones are looked up once, whatever is computed again.
  void take(const MicroBatch& micro_batch) {
    trial_.micro_batch = micro_batch;
    train_ = fullest_training(plan_, micro_batch, *search_.counts);
    eval_ = fullest_evaluation(plan_, micro_batch, *search_.counts);
    const bool reads = plan_.model.reads_source();
    trial_.training_batch = {train_.tokens, train_.supervised, reads ? train_.source : 0};
    trial_.evaluation_batch = {eval_.tokens, eval_.supervised, reads ? eval_.source : 0};
  }

  // Tries a fixed choice. True if the plan fits.
  bool fits(Checkpointing policy) {
    trial_.checkpointing = policy;
    trial_.step.recompute = policy == Checkpointing::none   ? Recomputed()
                            : policy == Checkpointing::full ? known_.full
                                                            : known_.selective;
    return fits();
  }
  // Tries the least recomputation that fits, if something must be computed again: at most this
  // share of a step's arithmetic. Recomputation that sufficed for a larger micro-batch suffices
  // again.
  bool fits_chosen(double most) {
    size_t too_few = 0, enough = within(most);
    if (enough == 0 ||
        !(enough < known_.units.size() ? fits_first(enough) : fits(Checkpointing::full)))
      return false;
    Trial fitting = trial_;  // with `enough` units
    bool tried = true;
    if (enough_ > 0 && enough_ < enough) enough = enough_, tried = false;
    while (enough - too_few > 1) {
      const size_t middle = (too_few + enough) / 2;
      const bool suffices = fits_first(middle);
      (suffices ? enough : too_few) = middle;
      if (suffices) fitting = trial_, tried = true;
    }
    enough_ = enough;
    if (tried) trial_ = std::move(fitting);
    // The last of the units may compute more again than full does, or the same.
    return tried || (enough < known_.units.size() ? fits_first(enough) : fits(Checkpointing::full));
  }

  // Returns a try that fits with the results of norms kept, too, if memory is left. They are 16 KB
  // a token and layer of 8B shapes, which the backward then need not write.
  Trial with_norms(const Trial& fitting) {
    trial_ = fitting;
    take(fitting.micro_batch);
    trial_.step.kept_norms = true;
    return fits() ? trial_ : fitting;
  }

  // Returns the recomputed share of a step's arithmetic: a backward takes twice what a forward
  // does.
  double extra() const {
    double flops = 0;
    for (const RecomputeUnit& unit : known_.units)
      if (trial_.step.recompute.has(unit.group, unit.layer)) flops += unit.flops;
    return flops / (3 * known_.forward_flops);
  }

 private:
  // Returns the number of units that together are at most this share of a step's arithmetic.
  size_t within(double share) const {
    double flops = 0;
    for (size_t i = 0; i < known_.units.size(); ++i)
      if ((flops += known_.units[i].flops) > share * 3 * known_.forward_flops) return i;
    return known_.units.size();
  }
  bool fits() {
    trial_.memory = memory_lines(plan_, models_, trial_, train_, eval_);
    trial_.predicted_peak_bytes = total_bytes(trial_.memory);
    trial_.host_memory = lines_on_host(plan_, models_, trial_);
    return trial_.predicted_peak_bytes <= search_.available_bytes && total_bytes(trial_.host_memory) <= host_room(plan_);
  }
  bool fits_first(size_t count) {
    trial_.checkpointing = Checkpointing::chosen;
    trial_.step.recompute = {};
    for (size_t i = 0; i < count; ++i) trial_.step.recompute.add(known_.units[i]);
    return fits();
  }

  const Schedule& plan_;
  const Search& search_;
  const Models& known_;
  RunModels models_;
  Trial trial_;
  Fullest train_, eval_;
  size_t enough_ = 0;  // units with which the last micro-batch fit that needed any; 0: none did
};

// Returns the cost of a micro-batch beside its arithmetic, in tokens: for each micro-batch, weights
// are read and launches or threads are waited for once. By bench/recompute/run.py on a CPU, 512
// tokens at a time are 4 % slower than 2,048, where the profile's smallest is 256.
double overhead_tokens(const Search& search) { return static_cast<double>(search.smallest) / 12; }

// Returns the first try of a search whose activations and optimizer state lie where `activations`
// and `state` say.
Trial first_trial(const Schedule& plan, Offload activations, Offload state) {
  const TrainConfig& train = plan.job.train;
  Trial trial{.micro_batch = {train.micro_batch_tokens.value_or(0), train.micro_batch_size.value_or(0)}, .activations = activations, .state = state};
  trial.step = chosen_step(plan);
  trial.step.offloaded = activations == Offload::host;
  return trial;
}

// Searches with activations and the optimizer's state where the first try has them.
SearchResult search_from(const Schedule& plan, const Search& search, const Models& known,
                         const Trial& start) {
  Recomputation recomputation(plan, search, known, start);
  const Checkpointing asked = plan.job.train.activation_checkpointing.value_or(Checkpointing::chosen);
  Trial fastest, smallest;
  smallest.predicted_peak_bytes = INT64_MAX;
  double best = std::numeric_limits<double>::infinity();
  const std::vector<int64_t> all = search.fixed_batch ? std::vector<int64_t>{0} : sizes(plan, search.knee, 1);
  const auto take = [&](int64_t tokens) { recomputation.take(tokens > 0 ? micro_batch_of(plan, tokens) : start.micro_batch); };
  const auto floor_of = [&](int64_t tokens) { return tokens > 0 ? 1 + overhead_tokens(search) / static_cast<double>(tokens) : 1; };
  // The largest micro-batch that fits with nothing computed again sets the cost that the others
  // must undercut.
  auto whole = all.end();
  if (!search.fixed_checkpointing && recomputation.has_room())
    whole = std::find_if(all.begin(), all.end(), [&](int64_t tokens) { return take(tokens), recomputation.fits(Checkpointing::none); });
  for (auto size = all.begin(); size != all.end(); ++size) {
    const double floor = floor_of(*size), limit = whole == all.end() ? best : std::min(best, floor_of(*whole));
    if (floor >= best) break;
    take(*size);
    const bool fits = search.fixed_checkpointing ? recomputation.fits(asked)
                      : size == whole            ? recomputation.fits(Checkpointing::none)
                                                 : recomputation.fits_chosen(limit - floor);
    if (!fits) {
      if (recomputation.trial().predicted_peak_bytes < smallest.predicted_peak_bytes)
        smallest = recomputation.trial();
      continue;
    }
    const double cost = floor + recomputation.extra();
    if (cost < best) fastest = recomputation.trial();
    best = std::min(best, cost);
  }
  if (best == std::numeric_limits<double>::infinity()) return {false, smallest};
  return {true, fastest.step.folded_adapters && fastest.step.recompute.layers.empty() ? recomputation.with_norms(fastest) : fastest};
}

}  // namespace

SearchResult find_fit(const Schedule& plan, const Search& search) {
  const Offload activations = plan.job.train.activation_offloading.value_or(Offload::none), state = plan.job.optimizer.offload.value_or(Offload::none);
  const bool activations_may = !search.fixed_offloading && activation_offload_refusal(plan.device.cuda).empty(),
             state_may = !search.fixed_offload && can_offload(plan);
  const auto missing = [&](const Trial& tried) {
    return std::max<int64_t>(0, tried.predicted_peak_bytes - search.available_bytes) +
           std::max<int64_t>(0, total_bytes(tried.host_memory) - host_room(plan));
  };
  const Models known = models_of(plan, search);
  std::optional<SearchResult> least;
  for (const bool state_moves : {false, true})
    for (const bool activations_move : {false, true}) {
      if ((state_moves && !state_may) || (activations_move && !activations_may)) continue;
      SearchResult tried =
          search_from(plan, search, known,
                      first_trial(plan, activations_move ? Offload::host : activations,
                                  state_moves ? Offload::host : state));
      if (tried.fits) return tried;
      if (!least || missing(tried.trial) < missing(least->trial)) least = std::move(tried);
    }
  return std::move(*least);
}

}  // namespace forge
