#include "core/plan/fit/search.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/model/graph/ops.h"
#include "core/plan/fit/offload.h"
#include "core/plan/stages/step_choice.h"

namespace forge {

void set_micro_batch(Fitted& plan, int64_t tokens) {
  TrainConfig& train = plan.job.train;
  const int64_t mean = std::max<int64_t>(1, plan.train.tokens / std::max<int64_t>(1, plan.train.examples));
  if (plan.job.data.packing) {
    train.micro_batch_tokens = tokens;
    train.micro_batch_size = std::clamp<int64_t>(tokens / mean, 1, *train.global_batch_size);
  } else {
    train.micro_batch_size = std::clamp<int64_t>(tokens / longest_of(plan), 1, *train.global_batch_size);
    train.micro_batch_tokens = *train.micro_batch_size * longest_of(plan);
  }
}

std::vector<int64_t> sizes(const Fitted& plan, int64_t from, int64_t to) {
  std::vector<int64_t> list;
  const int64_t least = longest_of(plan);
  for (int64_t tokens = std::max(from, least);; tokens = std::max(tokens / 2, least)) {
    list.push_back(tokens);
    if (tokens <= std::max(to, least)) return list;
  }
}

namespace {

// The units that could be computed again, cheapest first, and the plan with the first of them.
class Recomputation {
 public:
  Recomputation(Fitted& plan, const Search& search, const Inventory& inventory)
      : plan_(plan), search_(search), inventory_(inventory) {
    const double length = static_cast<double>(plan.train.tokens) /
                          static_cast<double>(std::max<int64_t>(1, plan.train.examples));
    const StepSizes sizes{
        .tokens = 1024, .targets = 1024, .compute_bytes = bytes_of(*plan.job.train.precision), .source = 1024};
    units_ = recompute_units(forward(), sizes, length, search.provider->recomputes_halves);
    for (const Op& op : forward().ops) forward_flops_ += cost_of(forward(), op, sizes, length).flops;
    // The fixed memory does not depend on the micro-batch.
    fixed_ = fixed_memory(plan, inventory.parameters);
  }

  // True if the memory that is held in any case leaves room for a micro-batch.
  bool has_room() const { return total_bytes(fixed_.held) < plan_.available_bytes; }

  // Takes over the plan's micro-batch: its fullest ones are looked up once, whatever is computed
  // again.
  void take_micro_batch() {
    train_ = fullest_training(plan_, *search_.counts);
    eval_ = fullest_evaluation(plan_, *search_.counts);
    plan_.training_batch = {train_.tokens, train_.supervised};
    plan_.evaluation_batch = {eval_.tokens, eval_.supervised};
  }

  // Tries a fixed choice. True if the plan fits.
  bool fits(Checkpointing policy) {
    plan_.job.train.activation_checkpointing = policy;
    plan_.step.recompute = policy == Checkpointing::none ? Recomputed() : recomputed_by(forward(), policy);
    return fits();
  }
  // Tries the least recomputation that fits, if something must be computed again: at most this
  // share of a step's arithmetic. Recomputation that sufficed for a larger micro-batch suffices
  // again.
  bool fits_chosen(double most) {
    size_t too_few = 0, enough = within(most);
    if (enough == 0 || !(enough < units_.size() ? fits_first(enough) : fits(Checkpointing::full))) return false;
    if (enough_ > 0) enough = std::min(enough, enough_);
    while (enough - too_few > 1) {
      const size_t middle = (too_few + enough) / 2;
      (fits_first(middle) ? enough : too_few) = middle;
    }
    enough_ = enough;
    // The last of the units may compute more again than full does, or the same.
    return enough < units_.size() ? fits_first(enough) : fits(Checkpointing::full);
  }

  // Keeps the results of norms, too, if nothing is computed again and memory is left. They are 16
  // KB a token and layer of 8B shapes, which the backward then need not write.
  void keep_norms() {
    take_micro_batch();
    plan_.step.kept_norms = true;
    if (fits()) return;
    plan_.step.kept_norms = false;
    fits();
  }

  // Returns the recomputed share of a step's arithmetic: a backward takes twice what a forward
  // does.
  double extra() const {
    double flops = 0;
    for (const RecomputeUnit& unit : units_)
      if (plan_.step.recompute.has(unit.groups[0], unit.layer)) flops += unit.flops;
    return flops / (3 * forward_flops_);
  }

 private:
  const Graph& forward() const { return inventory_.lists->forward(); }
  // Returns the number of units that together are at most this share of a step's arithmetic.
  size_t within(double share) const {
    double flops = 0;
    for (size_t i = 0; i < units_.size(); ++i)
      if ((flops += units_[i].flops) > share * 3 * forward_flops_) return i;
    return units_.size();
  }
  bool fits() {
    plan_.memory = memory_lines(plan_, *search_.provider, search_.plain, inventory_, fixed_, train_, eval_);
    plan_.predicted_peak_bytes = total_bytes(plan_.memory);
    plan_.host_memory = lines_on_host(plan_, inventory_, fixed_);
    return plan_.predicted_peak_bytes <= plan_.available_bytes && total_bytes(plan_.host_memory) <= host_room(plan_);
  }
  bool fits_first(size_t count) {
    plan_.job.train.activation_checkpointing = Checkpointing::chosen;
    plan_.step.recompute = {};
    for (size_t i = 0; i < count; ++i) plan_.step.recompute.add(units_[i]);
    return fits();
  }

  Fitted& plan_;
  const Search& search_;
  const Inventory& inventory_;
  Fullest train_, eval_;
  FixedMemory fixed_;
  std::vector<RecomputeUnit> units_;
  double forward_flops_ = 0;
  size_t enough_ = 0;  // units with which the last micro-batch fit that needed any; 0: none did
};

// Returns the cost of a micro-batch beside its arithmetic, in tokens: for each micro-batch, weights
// are read and launches or threads are waited for once. By bench/recompute/run.py on a CPU, 512
// tokens at a time are 4 % slower than 2,048, where the profile's smallest is 256.
double overhead_tokens(const Search& search) { return static_cast<double>(search.smallest) / 12; }

// Searches with activations and the optimizer's state where the plan has them.
bool fits_in_place(Fitted& plan, const Search& search) {
  plan.step = chosen_step(plan);
  const Inventory inventory = inventory_of(plan);
  Recomputation recomputation(plan, search, inventory);
  const Checkpointing asked = plan.job.train.activation_checkpointing.value_or(Checkpointing::chosen);
  Fitted fastest, smallest;
  double best = std::numeric_limits<double>::infinity();
  smallest.predicted_peak_bytes = INT64_MAX;
  const std::vector<int64_t> all = search.fixed_batch ? std::vector<int64_t>{0} : sizes(plan, search.knee, 1);
  const auto take = [&](int64_t tokens) {
    if (tokens > 0) set_micro_batch(plan, tokens);
    recomputation.take_micro_batch();
  };
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
      if (plan.predicted_peak_bytes < smallest.predicted_peak_bytes) smallest = plan;
      continue;
    }
    const double cost = floor + recomputation.extra();
    if (cost < best) fastest = plan;
    best = std::min(best, cost);
  }
  const bool found = best < std::numeric_limits<double>::infinity();
  plan = found ? fastest : smallest;
  if (found && plan.step.folded_adapters && plan.step.recompute.layers.empty()) recomputation.keep_norms();
  return found;
}

}  // namespace

bool fits(Fitted& plan, const Search& search) {
  Fitted open = plan;
  if (!search.fixed_offloading) open.job.train.activation_offloading = Offload::none;
  if (!search.fixed_offload) open.job.optimizer.offload = Offload::none;
  const bool activations = !search.fixed_offloading && activation_offload_refusal(plan.device.cuda, plan.provider).empty(),
             state = !search.fixed_offload && can_offload(plan);
  const auto missing = [](const Fitted& tried) {
    return std::max<int64_t>(0, tried.predicted_peak_bytes - tried.available_bytes) +
           std::max<int64_t>(0, total_bytes(tried.host_memory) - host_room(tried));
  };
  bool first = true;
  for (const bool state_moves : {false, true})
    for (const bool activations_move : {false, true}) {
      if ((state_moves && !state) || (activations_move && !activations)) continue;
      Fitted tried = open;
      if (state_moves) tried.job.optimizer.offload = Offload::host;
      if (activations_move) tried.job.train.activation_offloading = Offload::host;
      const bool found = fits_in_place(tried, search);
      if (found || first || missing(tried) < missing(plan)) plan = std::move(tried);
      if (found) return true;
      first = false;
    }
  return false;
}

}  // namespace forge
