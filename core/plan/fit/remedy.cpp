#include "core/plan/fit/remedy.h"

#include <algorithm>
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

// A change of the job that needs less memory. The list is in the order of what a change costs the
// user.
struct Remedy {
  std::vector<Setting> (*settings)(const Fitted& fitting);
  bool (*change)(Fitted& plan, Search& search);  // false: there is nothing to change
};

bool free_checkpointing(Fitted&, Search& search) { return std::exchange(search.fixed_checkpointing, false); }
bool free_batch(Fitted&, Search& search) { return std::exchange(search.fixed_batch, false); }
bool free_both(Fitted& plan, Search& search) {
  const bool checkpointing = free_checkpointing(plan, search), batch = free_batch(plan, search);
  return checkpointing && batch;
}
bool offload_activations(Fitted& plan, Search& search) {
  if (!search.fixed_offloading || plan.job.train.activation_offloading == Offload::host) return false;
  if (!activation_offload_refusal(plan.device.cuda, plan.provider).empty()) return false;
  plan.job.train.activation_offloading = Offload::host;
  return true;
}
bool offload(Fitted& plan, Search& search) {
  if (!search.fixed_offload || plan.job.optimizer.offload == Offload::host || !can_offload(plan)) return false;
  plan.job.optimizer.offload = Offload::host;
  return true;
}
// Frees the settings that later remedies need free anyway.
void free_all(Fitted& plan, Search& search) { free_both(plan, search); }

bool narrow(Fitted& plan, Search& search) {
  free_all(plan, search);
  if (*plan.job.train.precision != Precision::fp32 || plan.storage != Precision::fp32) return false;
  const bool cuda = plan.device.cuda;
  if (cuda ? plan.device.gpu.compute_capability < 80 : instructions_of(plan.device.cpu) < InstructionSet::avx512_bf16) return false;
  plan.job.train.precision = plan.storage = Precision::bf16;
  return true;
}

bool quantize(Fitted& plan, Search& search) {
  free_all(plan, search);
  const AdapterConfig& adapter = plan.job.adapter;
  if (adapter.type == AdapterType::none || plan.job.model.quantization != Quantization::none) return false;
  if (changes_base(adapter)) return false;  // needs the base in full
  plan.job.model.quantization = Quantization::nf4;
  return plan.job.model.double_quantization = true;
}

bool lower_rank(Fitted& plan, Search& search) {
  free_all(plan, search);
  if (plan.job.adapter.type == AdapterType::none || plan.job.adapter.rank <= 8) return false;
  plan.job.adapter.rank = 8;
  return true;
}

// Applies to jobs that train every weight, where the optimizer's state is the larger part of that
// memory.
bool smaller_state(Fitted& plan, Search& search, OptimizerType type) {
  free_all(plan, search);
  if (plan.job.adapter.type != AdapterType::none || plan.job.optimizer.type != OptimizerType::adamw) return false;
  plan.job.optimizer.type = type;
  return true;
}
bool state_of_8_bits(Fitted& plan, Search& search) { return smaller_state(plan, search, OptimizerType::adamw_8bit); }
bool factored_state(Fitted& plan, Search& search) { return smaller_state(plan, search, OptimizerType::adafactor); }

bool adapt(Fitted& plan, Search& search) {
  free_all(plan, search);
  if (plan.job.adapter.type == AdapterType::lora) return false;
  plan.job.adapter.type = AdapterType::lora;
  return true;
}

bool adapt_quantized(Fitted& plan, Search& search) { return adapt(plan, search) && quantize(plan, search); }

bool shorten(Fitted& plan, Search& search) {
  free_all(plan, search);
  if (plan.train.longest < 256) return false;
  plan.train.longest /= 2;
  plan.train.tokens = std::min(plan.train.tokens, plan.train.examples * plan.train.longest);
  return true;
}

Setting checkpointing_of(const Fitted& plan) {
  const Checkpointing came_to = *plan.job.train.activation_checkpointing;
  return {"train.activation_checkpointing", came_to == Checkpointing::chosen ? "auto" : name_of(came_to)};
}
Setting batch_of(const Fitted& plan) {
  return plan.job.data.packing
             ? Setting{"train.micro_batch_tokens", std::to_string(*plan.job.train.micro_batch_tokens)}
             : Setting{"train.micro_batch_size", std::to_string(*plan.job.train.micro_batch_size)};
}

using Settings = std::vector<Setting>;
constexpr Remedy kRemedies[] = {
    {[](const Fitted& plan) { return Settings{checkpointing_of(plan)}; }, free_checkpointing},
    {[](const Fitted& plan) { return Settings{batch_of(plan)}; }, free_batch},
    {[](const Fitted& plan) {
       return Settings{checkpointing_of(plan), batch_of(plan)};
     },
     free_both},
    {[](const Fitted&) {
       return Settings{{"train.activation_offloading", "host"}};
     },
     offload_activations},
    {[](const Fitted&) {
       return Settings{{"optimizer.offload", "host"}};
     },
     offload},
    {[](const Fitted&) {
       return Settings{{"train.precision", "bf16"}};
     },
     narrow},
    {[](const Fitted&) {
       return Settings{{"adapter.type", "qlora"}};
     },
     quantize},
    {[](const Fitted&) {
       return Settings{{"adapter.rank", "8"}};
     },
     lower_rank},
    {[](const Fitted&) {
       return Settings{{"optimizer.type", "adamw_8bit"}};
     },
     state_of_8_bits},
    {[](const Fitted&) {
       return Settings{{"optimizer.type", "adafactor"}};
     },
     factored_state},
    {[](const Fitted&) {
       return Settings{{"adapter.type", "lora"}};
     },
     adapt},
    {[](const Fitted&) {
       return Settings{{"adapter.type", "qlora"}};
     },
     adapt_quantized},
    {[](const Fitted& plan) {
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

// Returns the bytes that are held on the device whatever else is tried.
int64_t least_held(Fitted plan, const Search& search) {
  if (!search.fixed_offload && can_offload(plan)) plan.job.optimizer.offload = Offload::host;
  return total_bytes(fixed_memory(plan, parameters_of(plan)).held);
}

constexpr size_t kShownRemedies = 3;

// Returns the first remedies under which the plan fits, tried by planning again.
std::vector<FoundRemedy> remedies_for(const Fitted& asked, const Search& original) {
  static const ExampleCounts unknown;
  std::vector<FoundRemedy> found;
  for (const Remedy& remedy : kRemedies) {
    Fitted plan = asked;
    Search search = original;
    if (!remedy.change(plan, search)) continue;
    if (remedy.change == shorten) search.counts = &unknown;
    if (least_held(plan, search) >= plan.available_bytes) continue;
    if (!fits(plan, search)) continue;
    found.push_back({remedy.settings(plan), plan.predicted_peak_bytes});
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

void refuse(const Fitted& asked, const Fitted& smallest, const Search& search) {
  const MemoryLine& largest = largest_line(smallest.memory);
  const std::vector<FoundRemedy> remedies = remedies_for(asked, search);
  if (smallest.predicted_peak_bytes <= asked.available_bytes) refuse_host(smallest);  // which has less room than is missing on the card
  const std::string shortage = search.fixed_offload ? "" : state_shortage(asked);
  std::vector<std::string> moved;
  if (!search.fixed_offloading && smallest.job.train.activation_offloading == Offload::host) moved.push_back("the layers' inputs");
  if (!search.fixed_offload && smallest.job.optimizer.offload == Offload::host) moved.push_back("the optimizer's state");
  const bool limited = asked.job.hardware.memory_limit == asked.available_bytes,
             none = remedies.empty();
  throw Error(
      ErrorKind::fit,
      "needs " + format_bytes(smallest.predicted_peak_bytes) + ", " + format_bytes(asked.available_bytes) +
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
