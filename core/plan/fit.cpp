#include "core/plan/fit.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/text.h"
#include "core/config/names.h"
#include "core/families/step.h"
#include "core/graph/ops.h"
#include "core/objective/objective.h"
#include "core/plan/resolve.h"
#include "core/plan/rollout_plan.h"
#include "core/plan/value_plan.h"

namespace forge {
namespace {

constexpr int64_t kMostExamples = int64_t{1} << 24;  // the largest train.micro_batch_size
ActivationShape shape_of(const Plan& plan, const Inventory& inventory, const Fullest& fullest,
                         bool training) {
  const Job& job = plan.job;
  ActivationShape shape;
  shape.spec = plan.model;
  shape.adapter = job.adapter;
  shape.trains = inventory.trains;
  shape.forward = inventory.forward;
  shape.precision = *job.train.precision;
  shape.storage = plan.storage;
  shape.quantization = job.model.quantization;
  shape.recompute = plan.recompute;
  shape.trained = inventory.trained;
  shape.fused_head = plan.fused_head;
  shape.folded_adapters = plan.folded_adapters;
  shape.cuda = plan.device.cuda;
  shape.capability = plan.device.gpu.compute_capability;
  shape.instructions = instructions_of(plan.device.cpu);
  shape.trains_base = job.adapter.type == AdapterType::none;
  shape.micro_batch_tokens = fullest.tokens;
  shape.longest_sequence = fullest.longest;
  shape.supervised_tokens = fullest.supervised;
  shape.several_sequences = fullest.several;
  shape.threads = plan.device.cuda ? 0 : *job.train.threads;
  shape.training = training;
  shape.sums_answers = objective_of(job.objective.type).coupling != Coupling::token;
  return shape;
}

// The fuller of two moments. What is held has the size that the larger asks for, in both.
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

// What could be computed again, cheapest first, and how the plan is with the first of it.
class Recomputation {
 public:
  Recomputation(Plan& plan, const Search& search, const Inventory& inventory)
      : plan_(plan), search_(search), inventory_(inventory) {
    const double length = static_cast<double>(plan.train.tokens) /
                          static_cast<double>(std::max<int64_t>(1, plan.train.examples));
    const StepSizes sizes{
        .tokens = 1024, .targets = 1024, .compute_bytes = bytes_of(*plan.job.train.precision)};
    units_ = recompute_units(forward(), sizes, length, search.provider->recomputes_halves);
    for (const Op& op : forward().ops) forward_flops_ += cost_of(forward(), op, sizes, length).flops;
    // Nothing of these depends on the micro-batch.
    fixed_ = fixed_memory(plan, inventory);
  }

  // Whether what is held in any case leaves room for a micro-batch.
  bool has_room() const { return total_bytes(fixed_.held) < plan_.available_bytes; }

  // The plan's micro-batch, from now on: its fullest ones are looked up once, whatever is computed again.
  void take_micro_batch() {
    train_ = fullest_training(plan_, *search_.counts);
    eval_ = fullest_evaluation(plan_, *search_.counts);
    plan_.training_batch = {train_.tokens, train_.supervised};
    plan_.evaluation_batch = {eval_.tokens, eval_.supervised};
  }

  // With a fixed choice. True where the plan fits.
  bool fits(Checkpointing policy) {
    plan_.job.train.activation_checkpointing = policy;
    plan_.recompute = policy == Checkpointing::none ? Recomputed() : recomputed_by(forward(), policy);
    return fits();
  }
  // With the least that fits, where something must be computed again: at most this share of a step's arithmetic. What was enough
  // for a larger micro-batch is so again.
  bool fits_chosen(double most) {
    size_t too_few = 0, enough = within(most);
    if (enough == 0 || !(enough < units_.size() ? fits_first(enough) : fits(Checkpointing::full))) return false;
    if (enough_ > 0) enough = std::min(enough, enough_);
    while (enough - too_few > 1) {
      const size_t middle = (too_few + enough) / 2;
      (fits_first(middle) ? enough : too_few) = middle;
    }
    enough_ = enough;
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
  const Graph& forward() const { return *inventory_.forward; }
  // The units that together are at most this share of a step's arithmetic.
  size_t within(double share) const {
    double flops = 0;
    for (size_t i = 0; i < units_.size(); ++i)
      if ((flops += units_[i].flops) > share * 3 * forward_flops_) return i;
    return units_.size();
  }
  bool fits() {
    plan_.memory = memory_lines(plan_, *search_.provider, inventory_, fixed_, train_, eval_);
    plan_.predicted_peak_bytes = total_bytes(plan_.memory);
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
  Fullest train_, eval_;
  FixedMemory fixed_;
  std::vector<RecomputeUnit> units_;
  double forward_flops_ = 0;
  size_t enough_ = 0;  // units with which the last micro-batch fit that needed any; 0: none did
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
  const std::vector<int64_t> all = search.fixed_batch ? std::vector<int64_t>{0} : sizes(plan, search.knee, 1);
  const auto take = [&](int64_t tokens) {
    if (tokens > 0) set_micro_batch(plan, tokens);
    recomputation.take_micro_batch();
  };
  const auto floor_of = [&](int64_t tokens) { return tokens > 0 ? 1 + overhead_tokens(search) / static_cast<double>(tokens) : 1; };
  // The largest that fits with nothing computed again: what the others must undercut.
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
  resolve_head(plan);
  resolve_adapters(plan);
  return true;
}

bool quantize(Plan& plan, Search& search) {
  free_all(plan, search);
  const AdapterConfig& adapter = plan.job.adapter;
  if (adapter.type == AdapterType::none || plan.job.model.quantization != Quantization::none) return false;
  if (changes_base(adapter)) return false;  // needs the base in full
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
    if (total_bytes(fixed_memory(plan, inventory_of(plan)).held) >= plan.available_bytes) continue;  // whatever else is tried
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
      .hint(none ? "no single setting makes it fit: use a smaller model or a device with more memory"
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
  if (plan.origins.count(other) == 0 || plan.origins[other].kind == OriginKind::unset)
    derived(plan, other,
            plan.job.data.packing ? "roughly this many examples; with packing, tokens decide"
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
            plan.job.data.packing ? "roughly this many examples; with packing, tokens decide"
                                  : "as many examples in order as train.micro_batch_tokens holds");
  }
}

}  // namespace

void record_modules(Inventory& inventory, const ModelSpec& model, const AdapterConfig& adapter) {
  ActivationShape shape{.spec = model, .adapter = adapter};
  record_modules(shape, inventory.sites);
  inventory.trains = shape.trains, inventory.forward = shape.forward;
}

Inventory inventory_of(const Plan& plan) {
  const Job& job = plan.job;
  Inventory inventory{run_parameters(plan.model, job.adapter, job.model.quantization), adapter_sites(plan.model, job.adapter)};
  inventory.trained = trained_size(trained_layout(inventory.parameters, job.optimizer), job.train.precision.value_or(Precision::fp32));
  inventory.judges = judges_of(job);
  record_modules(inventory, plan.model, job.adapter);
  return inventory;
}

StepShape step_shape(const Plan& plan, const Inventory& inventory) {
  return {plan.model, *inventory.trains, plan.recompute, inventory.trained,
          plan.fused_head, plan.folded_adapters};
}

namespace {

constexpr const char* kSavedModules = "reference: saved modules";

// The base without the adapter, forward only.
std::vector<MemoryLine> reference_lines(const Plan& plan, const Provider& provider, const Inventory& inventory,
                                        const Fullest& train, const Fullest& eval) {
  const Fullest most{std::max(train.tokens, eval.tokens), std::max(train.supervised, eval.supervised),
                     std::max(train.longest, eval.longest), train.several || eval.several};
  ActivationShape shape = shape_of(plan, inventory, most, false);
  shape.trained = {};
  shape.adapter.use_dora = false;
  shape.adapter.modules_to_save.clear();
  shape.recompute = {};
  record_modules(shape, {});
  std::vector<MemoryLine> lines = provider.activation_lines(shape);
  std::erase_if(lines, [](const MemoryLine& line) { return line.name == "objective"; });
  for (MemoryLine& line : lines) line.name = "reference: " + line.name;
  int64_t saved = 0;
  for (const Parameter& parameter : inventory.parameters)
    if (parameter.trainable && !base_name(parameter).empty()) saved += parameter.count() * bytes_of(*plan.job.train.precision);
  if (saved > 0) lines.push_back({kSavedModules, saved, "the base's own weights beside those of adapter.modules_to_save"});
  return lines;
}

}  // namespace

bool computes_reference(const Plan& plan) {
  const ObjectiveConfig& objective = plan.job.objective;
  if (needs_base(plan.job)) return true;
  return objective_of(objective.type).has_reference && !objective.reference_cache.value_or(false);
}

FixedMemory fixed_memory(const Plan& plan, const Inventory& inventory) {
  const Precision precision = *plan.job.train.precision;
  const bool tied = plan.model.tie_word_embeddings;
  FixedMemory fixed{fixed_lines(inventory.parameters, plan.job, precision, plan.storage, tied),
                    update_lines(inventory.parameters, plan.job, precision, tied), {}};
  // A GPU's tensors are converted in the host's memory.
  if (!plan.device.cuda) fixed.loading = loading_lines(inventory.parameters, plan.job, precision, tied, *plan.job.train.threads);
  return fixed;
}

std::vector<MemoryLine> memory_lines(const Plan& plan, const Provider& provider, const Inventory& inventory, const FixedMemory& fixed,
                                     const Fullest& train, const Fullest& eval) {
  std::vector<MemoryLine> lines = fixed.held;
  std::vector<MemoryLine> moving = provider.activation_lines(shape_of(plan, inventory, train, true));
  if (eval.tokens > 0)
    moving = fuller(std::move(moving), provider.activation_lines(shape_of(plan, inventory, eval, false)));
  std::vector<MemoryLine> value;
  if (has_value_network(plan)) {
    const std::vector<MemoryLine> own = value_fixed_lines(plan);
    lines.insert(lines.end(), own.begin(), own.end());
    value = provider.activation_lines(shape_of(value_plan(plan), value_inventory(plan), train, true));
    if (provider.workspace) moving = fuller(std::move(moving), value);  // in turn, in one arena
  }
  std::vector<MemoryLine> judging;
  for (const JudgeModel& judge : inventory.judges) {
    const std::vector<MemoryLine> own = judge_fixed_lines(plan, judge);
    lines.insert(lines.end(), own.begin(), own.end());
    judging = fuller(std::move(judging), provider.activation_lines(judge_shape(plan, judge)));
  }
  if (provider.workspace && !judging.empty()) moving = fuller(std::move(moving), judging);
  const auto consider = [&](std::vector<MemoryLine> other) {
    if (total_bytes(other) > total_bytes(moving)) moving = std::move(other);
  };
  std::vector<MemoryLine> reference;
  if (computes_reference(plan)) reference = reference_lines(plan, provider, inventory, train, eval);
  // Weights of its own lie beside all else; its step takes the memory of the policy's, before it.
  const auto own = std::find_if(reference.begin(), reference.end(), [](const MemoryLine& line) { return line.name == kSavedModules; });
  if (own != reference.end()) {
    lines.push_back(*own);
    reference.erase(own);
  }
  if (provider.workspace && !reference.empty()) moving = fuller(std::move(moving), reference);
  std::vector<MemoryLine> update = fixed.update;
  if (provider.workspace)
    moving.insert(moving.end(), update.begin(), update.end());
  else
    consider(std::move(update));
  if (!provider.workspace) consider(std::move(reference)), consider(std::move(value)), consider(std::move(judging));
  if (draws_completions(plan.job.objective.type)) {
    std::vector<MemoryLine> drawing = rollout_lines(plan, provider, shape_of(plan, inventory, {}, false));
    if (provider.workspace)  // which keeps its arena
      lines.insert(lines.end(), drawing.begin(), drawing.end());
    else
      consider(std::move(drawing));
  }
  consider(fixed.loading);
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
