#include "core/plan/fit/remedy.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/job/names.h"
#include "core/lib/base/text.h"
#include "core/plan/fit/offload.h"

namespace forge {
namespace {

// A key of the job and the value to write instead.
struct Setting {
  std::string key, value;
};

// A job that is tried instead of the one that does not fit.
struct Attempt {
  Schedule plan;
  Search search;
};

// A change of the job that needs less memory. The list is in the order of what a change costs the
// user.
struct Remedy {
  std::vector<Setting> (*settings)(const Schedule& plan, const Trial& fitting);
  std::optional<Attempt> (*change)(Attempt attempt);  // nothing: there is nothing to change
};

std::optional<Attempt> free_checkpointing(Attempt attempt) {
  if (!std::exchange(attempt.search.fixed_checkpointing, false)) return {};
  return attempt;
}
std::optional<Attempt> free_batch(Attempt attempt) {
  if (!std::exchange(attempt.search.fixed_batch, false)) return {};
  return attempt;
}
std::optional<Attempt> free_both(Attempt attempt) {
  const std::optional<Attempt> checkpointing = free_checkpointing(std::move(attempt));
  return checkpointing ? free_batch(*checkpointing) : std::nullopt;
}
std::optional<Attempt> offload_activations(Attempt attempt) {
  Schedule& plan = attempt.plan;
  if (!attempt.search.fixed_offloading || plan.job.train.activation_offloading == Offload::host) return {};
  if (!activation_offload_refusal(plan.device.cuda).empty()) return {};
  plan.job.train.activation_offloading = Offload::host;
  return attempt;
}
std::optional<Attempt> offload(Attempt attempt) {
  Schedule& plan = attempt.plan;
  if (!attempt.search.fixed_offload || plan.job.optimizer.offload == Offload::host || !can_offload(plan)) return {};
  plan.job.optimizer.offload = Offload::host;
  return attempt;
}
// Frees the settings that later remedies need free anyway.
Attempt freed(Attempt attempt) {
  attempt.search.fixed_checkpointing = attempt.search.fixed_batch = false;
  return attempt;
}

std::optional<Attempt> narrow(Attempt asked) {
  Attempt attempt = freed(std::move(asked));
  Schedule& plan = attempt.plan;
  if (*plan.job.train.precision != Precision::fp32 || plan.storage != Precision::fp32) return {};
  const bool cuda = plan.device.cuda;
  if (cuda ? plan.device.gpu.compute_capability < 80 : instructions_of(plan.device.cpu) < InstructionSet::avx512_bf16) return {};
  plan.job.train.precision = plan.storage = Precision::bf16;
  return attempt;
}

std::optional<Attempt> quantize(Attempt asked) {
  Attempt attempt = freed(std::move(asked));
  Job& job = attempt.plan.job;
  if (job.adapter.type == AdapterType::none || job.model.quantization != Quantization::none) return {};
  if (changes_base(job.adapter)) return {};  // needs the base in full
  job.model.quantization = Quantization::nf4;
  job.model.double_quantization = true;
  return attempt;
}

std::optional<Attempt> lower_rank(Attempt asked) {
  Attempt attempt = freed(std::move(asked));
  AdapterConfig& adapter = attempt.plan.job.adapter;
  if (adapter.type == AdapterType::none || adapter.rank <= 8) return {};
  adapter.rank = 8;
  return attempt;
}

// Applies to jobs that train every weight, where the optimizer's state is the larger part of that
// memory.
std::optional<Attempt> smaller_state(Attempt asked, OptimizerType type) {
  Attempt attempt = freed(std::move(asked));
  Job& job = attempt.plan.job;
  if (job.adapter.type != AdapterType::none || job.optimizer.type != OptimizerType::adamw) return {};
  job.optimizer.type = type;
  return attempt;
}
std::optional<Attempt> state_of_8_bits(Attempt attempt) { return smaller_state(std::move(attempt), OptimizerType::adamw_8bit); }
std::optional<Attempt> factored_state(Attempt attempt) { return smaller_state(std::move(attempt), OptimizerType::adafactor); }

std::optional<Attempt> adapt(Attempt asked) {
  Attempt attempt = freed(std::move(asked));
  AdapterConfig& adapter = attempt.plan.job.adapter;
  if (adapter.type == AdapterType::lora) return {};
  adapter.type = AdapterType::lora;
  return attempt;
}

std::optional<Attempt> adapt_quantized(Attempt attempt) {
  const std::optional<Attempt> adapted = adapt(std::move(attempt));
  return adapted ? quantize(*adapted) : std::nullopt;
}

std::optional<Attempt> shorten(Attempt asked) {
  static const ExampleCounts unknown;
  Attempt attempt = freed(std::move(asked));
  DataSummary& train = attempt.plan.train;
  if (train.longest < 256) return {};
  train.longest /= 2;
  train.tokens = std::min(train.tokens, train.examples * train.longest);
  attempt.search.counts = &unknown;
  return attempt;
}

Setting checkpointing_of(const Trial& fitting) {
  return {"train.activation_checkpointing", fitting.checkpointing == Checkpointing::chosen ? "auto" : name_of(fitting.checkpointing)};
}
Setting batch_of(const Schedule& plan, const Trial& fitting) {
  return plan.job.data.packing ? Setting{"train.micro_batch_tokens", std::to_string(fitting.micro_batch.tokens)}
                               : Setting{"train.micro_batch_size", std::to_string(fitting.micro_batch.examples)};
}
using Settings = std::vector<Setting>;
constexpr Remedy kRemedies[] = {
    {[](const Schedule&, const Trial& fitting) { return Settings{checkpointing_of(fitting)}; }, free_checkpointing},
    {[](const Schedule& plan, const Trial& fitting) { return Settings{batch_of(plan, fitting)}; }, free_batch},
    {[](const Schedule& plan, const Trial& fitting) { return Settings{checkpointing_of(fitting), batch_of(plan, fitting)}; }, free_both},
    {[](const Schedule&, const Trial&) { return Settings{{"train.activation_offloading", "host"}}; }, offload_activations},
    {[](const Schedule&, const Trial&) { return Settings{{"optimizer.offload", "host"}}; }, offload},
    {[](const Schedule&, const Trial&) { return Settings{{"train.precision", "bf16"}}; }, narrow},
    {[](const Schedule&, const Trial&) { return Settings{{"adapter.type", "qlora"}}; }, quantize},
    {[](const Schedule&, const Trial&) { return Settings{{"adapter.rank", "8"}}; }, lower_rank},
    {[](const Schedule&, const Trial&) { return Settings{{"optimizer.type", "adamw_8bit"}}; }, state_of_8_bits},
    {[](const Schedule&, const Trial&) { return Settings{{"optimizer.type", "adafactor"}}; }, factored_state},
    {[](const Schedule&, const Trial&) { return Settings{{"adapter.type", "lora"}}; }, adapt},
    {[](const Schedule&, const Trial&) { return Settings{{"adapter.type", "qlora"}}; }, adapt_quantized},
    {[](const Schedule& plan, const Trial&) { return Settings{{"data.max_length", std::to_string(plan.train.longest)}}; }, shorten},
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

// Returns the bytes that are held on the device whatever else is tried.
int64_t least_held(const Attempt& attempt) {
  const Schedule& plan = attempt.plan;
  const bool moves = !attempt.search.fixed_offload && can_offload(plan);
  const Offload state = moves ? Offload::host : plan.job.optimizer.offload.value_or(Offload::none);
  return total_bytes(fixed_memory(plan, parameters_of(plan), state).held);
}

constexpr size_t kShownRemedies = 3;

// Returns the first remedies under which the plan fits, tried by planning again.
std::vector<FoundRemedy> remedies_for(const Schedule& asked, const Search& original) {
  std::vector<FoundRemedy> found;
  for (const Remedy& remedy : kRemedies) {
    const std::optional<Attempt> attempt = remedy.change({asked, original});
    if (!attempt || least_held(*attempt) >= original.available_bytes) continue;
    const SearchResult result = find_fit(attempt->plan, attempt->search);
    if (!result.fits) continue;
    found.push_back({remedy.settings(attempt->plan, result.trial), result.trial.peak_bytes});
    if (found.size() == kShownRemedies) break;
  }
  return found;
}

std::string texts_of(const std::vector<FoundRemedy>& remedies) {
  std::vector<std::string> texts;
  for (const FoundRemedy& remedy : remedies)
    texts.push_back(remedy.text() + " (needs " + format_bytes(remedy.bytes) + ")");
  return join(texts, "; or ");
}

}  // namespace

void refuse(const Schedule& asked, const Trial& smallest, const Search& search) {
  const MemoryLine& largest = largest_line(smallest.memory);
  const std::vector<FoundRemedy> remedies = remedies_for(asked, search);
  if (smallest.peak_bytes <= search.available_bytes) refuse_host(asked, smallest.host_memory);  // which has less room than is missing on the card
  const std::string shortage = search.fixed_offload ? "" : state_shortage(asked);
  std::vector<std::string> moved;
  if (!search.fixed_offloading && smallest.activations == Offload::host) moved.push_back("the layers' inputs");
  if (!search.fixed_offload && smallest.state == Offload::host) moved.push_back("the optimizer's state");
  const bool limited = asked.job.hardware.memory_limit == search.available_bytes,
             none = remedies.empty();
  throw Error(
      ErrorKind::fit,
      "needs " + format_bytes(smallest.peak_bytes) + ", " + format_bytes(search.available_bytes) +
          " available on " + asked.device.name() + (limited ? " (hardware.memory_limit)" : "") +
          (moved.empty() ? "" : ", even with " + join(moved, " and ") + " in the host's memory") +
          "; the largest part is " + largest.name + " (" + format_bytes(largest.bytes) + ": " +
          largest.formula + ")" + (shortage.empty() ? "" : "; " + shortage) +
          (none ? ""
                : "; the cheapest remedy: " + texts_of(remedies)))
      .hint(none ? "no single setting makes it fit: use a smaller model or a device with more memory"
                 : "set " + remedies[0].text());
}

}  // namespace forge
