#include "core/plan/fit.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/text.h"
#include "core/config/names.h"
#include "core/data/batch/order.h"
#include "core/families/step.h"
#include "core/graph/ops.h"
#include "core/plan/resolve.h"

namespace forge {
namespace {

constexpr int64_t kMostExamples = int64_t{1} << 24;  // the largest train.micro_batch_size
constexpr int64_t kMostVisits =
    200'000;  // examples whose batches are laid out exactly; beyond that a bound serves

int64_t longest_of(const Plan& plan) { return std::max<int64_t>(1, plan.train.longest); }

// The most tokens that one step can have: its examples cannot all be the longest of the data set.
int64_t step_bound(const Plan& plan, const std::vector<int64_t>& lengths) {
  if (plan.job.train.global_batch_tokens)
    return std::max(*plan.job.train.global_batch_tokens, longest_of(plan));
  const auto examples = static_cast<size_t>(*plan.job.train.global_batch_size);
  if (lengths.empty()) return static_cast<int64_t>(examples) * longest_of(plan);
  std::vector<int64_t> sorted = lengths;
  const auto end = sorted.begin() + static_cast<int64_t>(std::min(examples, sorted.size()));
  std::partial_sort(sorted.begin(), end, sorted.end(), std::greater<>());
  return std::accumulate(sorted.begin(), end, int64_t{0});
}

// Supervised tokens of a micro-batch of which only the data set's share is known: a quarter more than that.
int64_t supervised_bound(const DataSummary& data, int64_t tokens) {
  const double share =
      static_cast<double>(data.supervised_tokens) / static_cast<double>(std::max<int64_t>(1, data.tokens));
  return std::min(tokens, static_cast<int64_t>(1.25 * share * static_cast<double>(tokens)) + 1);
}

void visit(Fullest& fullest, const std::vector<int64_t>& batch, const std::vector<int64_t>& lengths,
           const std::vector<int64_t>& supervised) {
  int64_t tokens = 0, targets = 0;
  for (int64_t index : batch) {
    const auto i = static_cast<size_t>(index);
    tokens += lengths[i];
    if (i < supervised.size()) targets += supervised[i];
    fullest.longest = std::max(fullest.longest, lengths[i]);
  }
  fullest.tokens = std::max(fullest.tokens, tokens);
  fullest.supervised = std::max(fullest.supervised, targets);
  fullest.several |= batch.size() > 1;
}

// The order is a function of seed and data, so the fullest micro-batch can be looked up; while data are only
// estimated a bound serves.
Fullest fullest_training(const Plan& plan, const ExampleCounts& counts) {
  const TrainConfig& train = plan.job.train;
  const std::vector<int64_t>& lengths = counts.train;
  const int64_t epochs =
      plan.steps == 0 ? 1
                      : std::max<int64_t>(1, (plan.steps + plan.steps_per_epoch - 1) / plan.steps_per_epoch);
  Fullest fullest;
  if (!lengths.empty() && static_cast<int64_t>(lengths.size()) * epochs <= kMostVisits) {
    fullest.several = false;
    int64_t left = plan.steps == 0 ? INT64_MAX : plan.steps;
    for (int64_t epoch = 0; epoch < epochs; ++epoch)
      for (const auto& step : epoch_steps(lengths, plan.job, epoch)) {
        if (left-- <= 0) break;
        for (const auto& batch : micro_batches(step, lengths, plan.job))
          visit(fullest, batch, lengths, counts.train_supervised);
      }
  } else {
    int64_t budget = std::max(*train.micro_batch_tokens, longest_of(plan));
    if (!plan.job.data.packing) budget = std::min(budget, *train.micro_batch_size * longest_of(plan));
    fullest.tokens = std::min(budget, step_bound(plan, lengths));
    fullest.longest = std::min(fullest.tokens, longest_of(plan));
  }
  if (counts.train_supervised.empty() || fullest.supervised <= 1)
    fullest.supervised = supervised_bound(plan.train, fullest.tokens);
  return fullest;
}

// As core/train/step.cpp cuts an evaluation: examples in order, as many as fit.
Fullest fullest_evaluation(const Plan& plan, const ExampleCounts& counts) {
  Fullest fullest;
  if (plan.eval.examples == 0) return {0, 0, 0, false};
  const int64_t budget = evaluation_tokens(plan);
  if (counts.eval.empty()) {
    fullest.tokens = std::max(budget, plan.eval.longest);
    fullest.longest = plan.eval.longest;
    fullest.supervised = supervised_bound(plan.eval, fullest.tokens);
    return fullest;
  }
  fullest.several = false;
  std::vector<int64_t> batch;
  int64_t tokens = 0;
  for (size_t i = 0; i < counts.eval.size(); ++i) {
    if (!batch.empty() && tokens + counts.eval[i] > budget) {
      visit(fullest, batch, counts.eval, counts.eval_supervised);
      batch.clear();
      tokens = 0;
    }
    batch.push_back(static_cast<int64_t>(i));
    tokens += counts.eval[i];
  }
  visit(fullest, batch, counts.eval, counts.eval_supervised);
  if (counts.eval_supervised.empty()) fullest.supervised = supervised_bound(plan.eval, fullest.tokens);
  return fullest;
}

ActivationShape shape_of(const Plan& plan, const Inventory& inventory, const Fullest& fullest,
                         bool training) {
  const Job& job = plan.job;
  ActivationShape shape;
  shape.spec = plan.model;
  shape.adapter = job.adapter;
  shape.sites = inventory.sites;
  shape.precision = *job.train.precision;
  shape.storage = plan.storage;
  shape.quantization = job.model.quantization;
  shape.recompute = plan.recompute;
  shape.cuda = plan.device.cuda;
  shape.instructions = instructions_of(plan.device.cpu);
  shape.trains_base = job.adapter.type == AdapterType::none;
  shape.micro_batch_tokens = fullest.tokens;
  shape.longest_sequence = fullest.longest;
  shape.supervised_tokens = fullest.supervised;
  shape.several_sequences = fullest.several;
  shape.threads = plan.device.cuda ? 0 : *job.train.threads;
  shape.training = training;
  return shape;
}

int64_t available_bytes(const Plan& plan, const Profile& profile) {
  const int64_t free = std::max<int64_t>(0, plan.device.free_bytes() - profile.reserve_bytes.value);
  return plan.job.hardware.memory_limit ? std::min(free, *plan.job.hardware.memory_limit) : free;
}

// Everything the search for a fitting plan needs to try one.
struct Search {
  const ExampleCounts* counts;
  const Provider* provider;
  int64_t knee, smallest;
  bool fixed_batch, fixed_checkpointing;
};

void set_micro_batch(Plan& plan, int64_t tokens) {
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

// Sizes to try, largest first; never less than the longest example, which cannot be cut.
std::vector<int64_t> sizes(const Plan& plan, int64_t from, int64_t to) {
  std::vector<int64_t> list;
  const int64_t least = longest_of(plan);
  for (int64_t tokens = std::max(from, least);; tokens = std::max(tokens / 2, least)) {
    list.push_back(tokens);
    if (tokens <= std::max(to, least)) return list;
  }
}

// Settles what the plan needs to hold at this micro-batch.
void lay_out_memory(Plan& plan, const Search& search, const Inventory& inventory) {
  const Fullest train = fullest_training(plan, *search.counts),
                eval = fullest_evaluation(plan, *search.counts);
  plan.training_batch = {train.tokens, train.supervised};
  plan.evaluation_batch = {eval.tokens, eval.supervised};
  plan.memory = memory_lines(plan, *search.provider, inventory, train, eval);
  plan.predicted_peak_bytes = total_bytes(plan.memory);
}

// What could be computed again, cheapest first, and how the plan is with the first of it.
class Recomputation {
 public:
  Recomputation(Plan& plan, const Search& search, const Inventory& inventory)
      : plan_(plan), search_(search), inventory_(inventory) {
    const StepShape shape{plan.model, module_training(plan.model, plan.job.adapter, inventory.sites)};
    forward_ = forward_list(shape);
    const double length = static_cast<double>(plan.train.tokens) /
                          static_cast<double>(std::max<int64_t>(1, plan.train.examples));
    const StepSizes sizes{
        .tokens = 1024, .targets = 1024, .compute_bytes = bytes_of(*plan.job.train.precision)};
    units_ = recompute_units(forward_, sizes, length, search.provider->recomputes_halves);
    for (const Op& op : forward_.ops) forward_flops_ += cost_of(forward_, op, sizes, length).flops;
  }

  // With a fixed choice. True where the plan fits.
  bool fits(Checkpointing policy) {
    plan_.job.train.activation_checkpointing = policy;
    plan_.recompute = recomputed_by(forward_, policy);
    return fits();
  }
  // With the least that fits, or with all where nothing does.
  bool fits_chosen() {
    if (fits(Checkpointing::none)) return true;
    if (!fits(Checkpointing::full)) return false;
    size_t too_few = 0, enough = units_.size();
    while (enough - too_few > 1) {
      const size_t middle = (too_few + enough) / 2;
      (fits_first(middle) ? enough : too_few) = middle;
    }
    // The last may be more than full computes again, or the same.
    return enough < units_.size() ? fits_first(enough) : fits(Checkpointing::full);
  }

  // Of a step's arithmetic: a backward takes twice what a forward does.
  double extra() const {
    double flops = 0;
    for (const RecomputeUnit& unit : units_)
      if (plan_.recompute.has(unit.groups[0], unit.layer)) flops += unit.flops;
    return flops / (3 * forward_flops_);
  }

 private:
  bool fits() {
    lay_out_memory(plan_, search_, inventory_);
    return plan_.predicted_peak_bytes <= plan_.available_bytes;
  }
  bool fits_first(size_t count) {
    plan_.job.train.activation_checkpointing = Checkpointing::chosen;
    plan_.recompute = {};
    for (size_t i = 0; i < count; ++i) plan_.recompute.add(units_[i]);
    return fits();
  }

  Plan& plan_;
  const Search& search_;
  const Inventory& inventory_;
  Graph forward_;
  std::vector<RecomputeUnit> units_;
  double forward_flops_ = 0;
};

// What a micro-batch costs beside its arithmetic, in tokens: weights are read, and launches or threads met, once for each. By
// bench/recompute/run.py on a CPU, 512 tokens at a time are 4 % slower than 2,048, where the profile's smallest is 256.
double overhead_tokens(const Search& search) { return static_cast<double>(search.smallest) / 12; }

// The fastest plan that fits, by its arithmetic and its number of micro-batches; else false, with the plan that needs least.
bool fits(Plan& plan, const Search& search) {
  const Inventory inventory = inventory_of(plan);
  Recomputation recomputation(plan, search, inventory);
  const Checkpointing asked = plan.job.train.activation_checkpointing.value_or(Checkpointing::chosen);
  Plan fastest, smallest;
  double best = std::numeric_limits<double>::infinity();
  smallest.predicted_peak_bytes = INT64_MAX;
  for (int64_t tokens : search.fixed_batch ? std::vector<int64_t>{0} : sizes(plan, search.knee, 1)) {
    if (tokens > 0) set_micro_batch(plan, tokens);
    const double floor = tokens > 0 ? 1 + overhead_tokens(search) / static_cast<double>(tokens) : 1;
    if (floor >= best) break;
    if (!(search.fixed_checkpointing ? recomputation.fits(asked) : recomputation.fits_chosen())) {
      if (plan.predicted_peak_bytes < smallest.predicted_peak_bytes) smallest = plan;
      continue;
    }
    const double cost = floor + recomputation.extra();
    if (cost < best) fastest = plan;
    best = std::min(best, cost);
  }
  const bool found = best < std::numeric_limits<double>::infinity();
  plan = found ? fastest : smallest;
  return found;
}

// What a job would say instead.
struct Setting {
  std::string key, value;
};

// A change of the job that needs less memory. The list is in the order of what a change costs the user.
struct Remedy {
  std::vector<Setting> (*settings)(const Plan& fitting);
  bool (*change)(Plan& plan, Search& search);  // false: there is nothing to change
};

bool free_checkpointing(Plan&, Search& search) { return std::exchange(search.fixed_checkpointing, false); }
bool free_batch(Plan&, Search& search) { return std::exchange(search.fixed_batch, false); }
bool free_both(Plan& plan, Search& search) {
  const bool checkpointing = free_checkpointing(plan, search), batch = free_batch(plan, search);
  return checkpointing && batch;
}
// What later remedies need anyway.
void free_all(Plan& plan, Search& search) { free_both(plan, search); }

bool narrow(Plan& plan, Search& search) {
  free_all(plan, search);
  if (*plan.job.train.precision != Precision::fp32 || plan.storage != Precision::fp32) return false;
  const bool cuda = plan.device.cuda;
  if (cuda ? plan.device.gpu.compute_capability < 80 : plan.profile != "cpu_bf16") return false;
  plan.job.train.precision = plan.storage = Precision::bf16;
  return true;
}

bool quantize(Plan& plan, Search& search) {
  free_all(plan, search);
  const AdapterConfig& adapter = plan.job.adapter;
  if (adapter.type == AdapterType::none || plan.job.model.quantization != Quantization::none) return false;
  if (adapter.init == LoraInit::pissa && !adapter.init_from) return false;  // needs the base in full
  plan.job.model.quantization = Quantization::nf4;
  return plan.job.model.double_quantization = true;
}

bool lower_rank(Plan& plan, Search& search) {
  free_all(plan, search);
  if (plan.job.adapter.type == AdapterType::none || plan.job.adapter.rank <= 8) return false;
  plan.job.adapter.rank = 8;
  return true;
}

bool adapt(Plan& plan, Search& search) {
  free_all(plan, search);
  if (plan.job.adapter.type == AdapterType::lora) return false;
  plan.job.adapter.type = AdapterType::lora;
  return true;
}

bool adapt_quantized(Plan& plan, Search& search) { return adapt(plan, search) && quantize(plan, search); }

bool shorten(Plan& plan, Search& search) {
  free_all(plan, search);
  if (plan.train.longest < 256) return false;
  plan.train.longest /= 2;
  plan.train.tokens = std::min(plan.train.tokens, plan.train.examples * plan.train.longest);
  return true;
}

Setting checkpointing_of(const Plan& plan) {
  const Checkpointing came_to = *plan.job.train.activation_checkpointing;
  return {"train.activation_checkpointing", came_to == Checkpointing::chosen ? "auto" : name_of(came_to)};
}
Setting batch_of(const Plan& plan) {
  return plan.job.data.packing
             ? Setting{"train.micro_batch_tokens", std::to_string(*plan.job.train.micro_batch_tokens)}
             : Setting{"train.micro_batch_size", std::to_string(*plan.job.train.micro_batch_size)};
}

using Settings = std::vector<Setting>;
constexpr Remedy kRemedies[] = {
    {[](const Plan& plan) { return Settings{checkpointing_of(plan)}; }, free_checkpointing},
    {[](const Plan& plan) { return Settings{batch_of(plan)}; }, free_batch},
    {[](const Plan& plan) {
       return Settings{checkpointing_of(plan), batch_of(plan)};
     },
     free_both},
    {[](const Plan&) {
       return Settings{{"train.precision", "bf16"}};
     },
     narrow},
    {[](const Plan&) {
       return Settings{{"adapter.type", "qlora"}};
     },
     quantize},
    {[](const Plan&) {
       return Settings{{"adapter.rank", "8"}};
     },
     lower_rank},
    {[](const Plan&) {
       return Settings{{"adapter.type", "lora"}};
     },
     adapt},
    {[](const Plan&) {
       return Settings{{"adapter.type", "qlora"}};
     },
     adapt_quantized},
    {[](const Plan& plan) {
       return Settings{{"data.max_length", std::to_string(plan.train.longest)}};
     },
     shorten},
};

struct FoundRemedy {
  Settings settings;  // empty: there is none
  int64_t bytes = 0;  // that the job needs under it

  std::string text() const {
    std::vector<std::string> parts;
    for (const Setting& setting : settings) parts.push_back(setting.key + ": " + setting.value);
    return join(parts, " and ");
  }
};

// The first remedy under which the plan fits, tried by planning again.
FoundRemedy remedy_for(const Plan& asked, const Search& original) {
  static const ExampleCounts unknown;
  for (const Remedy& remedy : kRemedies) {
    Plan plan = asked;
    Search search = original;
    if (!remedy.change(plan, search)) continue;
    if (remedy.change == shorten) search.counts = &unknown;
    if (fits(plan, search)) return {remedy.settings(plan), plan.predicted_peak_bytes};
  }
  return {};
}

[[noreturn]] void refuse(const Plan& asked, const Plan& smallest, const Search& search) {
  const MemoryLine& largest = largest_line(smallest.memory);
  const FoundRemedy remedy = remedy_for(asked, search);
  const bool limited = asked.job.hardware.memory_limit == asked.available_bytes,
             none = remedy.settings.empty();
  throw Error(
      ErrorKind::fit,
      "needs " + format_bytes(smallest.predicted_peak_bytes) + ", " + format_bytes(asked.available_bytes) +
          " available on " + asked.device.name() + (limited ? " (hardware.memory_limit)" : "") +
          "; the largest part is " + largest.name + " (" + format_bytes(largest.bytes) + ": " +
          largest.formula + ")" +
          (none ? ""
                : "; the cheapest remedy: " + remedy.text() + " (needs " + format_bytes(remedy.bytes) + ")"))
      .hint(none ? "no single setting makes it fit: take a smaller model or a device with more memory"
                 : "set " + remedy.text());
}

std::string room_text(const Plan& plan) {
  return format_bytes(plan.predicted_peak_bytes) + " of " + format_bytes(plan.available_bytes);
}

void explain_choice(Plan& plan, const Search& search, const Profile& profile, bool first) {
  const TrainConfig& train = plan.job.train;
  const std::string knee = format_count(search.knee);
  if (!search.fixed_checkpointing) {
    const std::string cost = *train.activation_checkpointing == Checkpointing::none
                                 ? "nothing needs to be computed again: "
                                 : "computes again " + describe(plan.recompute) + ": ";
    derived(plan, "train.activation_checkpointing", cost + room_text(plan));
  }
  const std::string key = plan.job.data.packing ? "train.micro_batch_tokens" : "train.micro_batch_size";
  const std::string other = plan.job.data.packing ? "train.micro_batch_size" : "train.micro_batch_tokens";
  if (!search.fixed_batch)
    derived(plan, key,
            first ? "the knee of throughput, " + knee + " tokens: " + profile.micro_batch_tokens.reason
                  : "the most that fits below the knee of " + knee + " tokens: " + room_text(plan));
  if (plan.origins.count(other) == 0 || plan.origins[other].source == "default")
    derived(plan, other,
            plan.job.data.packing ? "about as many examples; with packing tokens decide"
                                  : "examples of at most " + format_count(longest_of(plan)) + " tokens");
}

// A micro-batch given in examples still packs into a budget of tokens, and the other way round.
void complete_fixed_batch(Plan& plan) {
  TrainConfig& train = plan.job.train;
  if (train.micro_batch_size && !train.micro_batch_tokens) {
    train.micro_batch_tokens = *train.micro_batch_size * longest_of(plan);
    derived(plan, "train.micro_batch_tokens",
            format_count(*train.micro_batch_size) + " examples of at most " + format_count(longest_of(plan)) +
                " tokens");
  } else if (!train.micro_batch_size) {
    const int64_t tokens = *train.micro_batch_tokens;
    set_micro_batch(plan, tokens);
    train.micro_batch_tokens = tokens;
    // Without packing both limits hold, so the one that was not asked for must never be reached first.
    if (!plan.job.data.packing)
      train.micro_batch_size = train.global_batch_tokens ? std::min(tokens, kMostExamples)
                                                         : std::min(tokens, *train.global_batch_size);
    derived(plan, "train.micro_batch_size",
            plan.job.data.packing ? "about as many examples; with packing tokens decide"
                                  : "as many examples in order as train.micro_batch_tokens holds");
  }
}

}  // namespace

Inventory inventory_of(const Plan& plan) {
  const Job& job = plan.job;
  return {run_parameters(plan.model, job.adapter, job.model.quantization),
          adapter_sites(plan.model, job.adapter)};
}

std::vector<MemoryLine> memory_lines(const Plan& plan, const Provider& provider, const Inventory& inventory,
                                     const Fullest& train, const Fullest& eval) {
  std::vector<MemoryLine> lines = fixed_lines(inventory.parameters, plan.job, *plan.job.train.precision,
                                              plan.storage, plan.model.tie_word_embeddings);
  std::vector<MemoryLine> moving = provider.activation_lines(shape_of(plan, inventory, train, true));
  const auto consider = [&](std::vector<MemoryLine> other) {
    if (total_bytes(other) > total_bytes(moving)) moving = std::move(other);
  };
  if (eval.tokens > 0) consider(provider.activation_lines(shape_of(plan, inventory, eval, false)));
  std::vector<MemoryLine> update =
      update_lines(inventory.parameters, plan.job, *plan.job.train.precision, plan.model.tie_word_embeddings);
  if (provider.workspace)
    moving.insert(moving.end(), update.begin(), update.end());
  else
    consider(std::move(update));
  // A GPU's tensors are converted in the host's memory.
  if (!plan.device.cuda)
    consider(loading_lines(inventory.parameters, plan.job, *plan.job.train.precision,
                           plan.model.tie_word_embeddings, *plan.job.train.threads));
  for (MemoryLine& line : moving) lines.push_back(std::move(line));
  return lines;
}

void resolve_memory(Plan& plan, const Profile& profile, const Provider& provider,
                    const ExampleCounts& counts) {
  TrainConfig& train = plan.job.train;
  plan.available_bytes = available_bytes(plan, profile);
  const Search search{
      &counts,
      &provider,
      profile.micro_batch_tokens.value,
      profile.smallest_micro_batch_tokens.value,
      train.micro_batch_size || train.micro_batch_tokens,
      train.activation_checkpointing && *train.activation_checkpointing != Checkpointing::chosen};
  if (search.fixed_batch) complete_fixed_batch(plan);
  const Plan asked = plan;
  if (!fits(plan, search)) refuse(asked, plan, search);
  const int64_t knee = sizes(plan, search.knee, search.knee).front();
  explain_choice(plan, search, profile, search.fixed_batch || knee <= *train.micro_batch_tokens);
  plan.parameters = count_parameters(inventory_of(plan).parameters);
  plan.targets = target_matches(plan.model, plan.job.adapter);
}

void require_disk(const Plan& plan, int64_t free_bytes) {
  if (plan.disk_bytes <= free_bytes) return;
  throw Error(ErrorKind::environment, plan.job.output_dir + ": the run writes up to " +
                                          format_bytes(plan.disk_bytes) + ", " + format_bytes(free_bytes) +
                                          " are free (one checkpoint is " +
                                          format_bytes(plan.checkpoint_bytes) + ")")
      .hint("free space, set output_dir to another disk, or keep fewer checkpoints (checkpoint.keep_last)");
}

}  // namespace forge
