// Refuses a plan that does not fit, with the change of the job that would make it fit.
#include <algorithm>
#include <utility>

#include "core/job/names.h"
#include "core/lib/base/text.h"
#include "core/plan/fit/offload.h"
#include "core/plan/fit/search.h"

namespace forge {
namespace {

// A job that is tried instead of the one that does not fit.
struct Attempt {
  Schedule plan;
  Search search;
};

bool free_checkpointing(Attempt& attempt) {
  return std::exchange(attempt.search.fixed_checkpointing, false);
}
bool free_batch(Attempt& attempt) { return std::exchange(attempt.search.fixed_batch, false); }
bool free_both(Attempt& attempt) { return free_checkpointing(attempt) && free_batch(attempt); }
bool offload_activations(Attempt& attempt) {
  Schedule& plan = attempt.plan;
  if (!attempt.search.fixed_offloading || plan.job.train.activation_offloading == Offload::host) return false;
  plan.job.train.activation_offloading = Offload::host;
  return activation_offload_refusal(plan.device.cuda).empty();
}
bool offload(Attempt& attempt) {
  Schedule& plan = attempt.plan;
  if (!attempt.search.fixed_offload || plan.job.optimizer.offload == Offload::host || !can_offload(plan)) return false;
  plan.job.optimizer.offload = Offload::host;
  return true;
}

bool narrow(Attempt& attempt) {
  Schedule& plan = attempt.plan;
  if (*plan.job.train.precision != Precision::fp32 || plan.storage != Precision::fp32) return false;
  plan.job.train.precision = plan.storage = Precision::bf16;
  return plan.device.cuda ? plan.device.gpu.compute_capability >= 80
                          : instructions_of(plan.device.cpu) >= InstructionSet::avx512_bf16;
}

bool quantize(Attempt& attempt) {
  Job& job = attempt.plan.job;
  if (job.adapter.type == AdapterType::none || job.model.quantization != Quantization::none) return false;
  if (changes_base(job.adapter)) return false;  // needs the base in full
  job.model.quantization = Quantization::nf4;
  job.model.double_quantization = true;
  return true;
}

bool lower_rank(Attempt& attempt) {
  AdapterConfig& adapter = attempt.plan.job.adapter;
  if (adapter.type == AdapterType::none || adapter.rank <= 8) return false;
  adapter.rank = 8;
  return true;
}

// Applies to jobs that train every weight, where the optimizer's state is the larger part of that
// memory.
template <OptimizerType type>
bool smaller_state(Attempt& attempt) {
  Job& job = attempt.plan.job;
  if (job.adapter.type != AdapterType::none || job.optimizer.type != OptimizerType::adamw) return false;
  job.optimizer.type = type;
  return true;
}

bool adapt(Attempt& attempt) {
  return std::exchange(attempt.plan.job.adapter.type, AdapterType::lora) != AdapterType::lora;
}
bool adapt_quantized(Attempt& attempt) { return adapt(attempt) && quantize(attempt); }

bool shorten(Attempt& attempt) {
  static const ExampleCounts unknown;
  DataSummary& train = attempt.plan.train;
  if (train.longest < 256) return false;
  train.longest /= 2;
  train.tokens = std::min(train.tokens, train.examples * train.longest);
  attempt.search.counts = &unknown;
  return true;
}

// Return the settings to write, as in a job: "KEY: VALUE".
std::string checkpointing_of(const Schedule&, const Trial& fitting) {
  const bool chosen = fitting.checkpointing == Checkpointing::chosen;
  return "train.activation_checkpointing: " + (chosen ? "auto" : name_of(fitting.checkpointing));
}
std::string batch_of(const Schedule& plan, const Trial& fitting) {
  if (plan.job.data.packing) return "train.micro_batch_tokens: " + std::to_string(fitting.micro_batch.tokens);
  return "train.micro_batch_size: " + std::to_string(fitting.micro_batch.examples);
}
std::string both_of(const Schedule& plan, const Trial& fitting) {
  return checkpointing_of(plan, fitting) + " and " + batch_of(plan, fitting);
}
std::string length_of(const Schedule& plan, const Trial&) {
  return "data.max_length: " + std::to_string(plan.train.longest);
}

// A change of the job that needs less memory. The list is in the order of what a change costs the
// user.
struct Remedy {
  bool (*change)(Attempt& attempt);  // false: there is nothing to change
  bool frees;                        // the search chooses micro-batch and recomputation again
  const char* setting;               // to write
  std::string (*settings)(const Schedule& plan, const Trial& fitting) = nullptr;  // in place of it
};
constexpr Remedy kRemedies[] = {
    {free_checkpointing, false, "", checkpointing_of},
    {free_batch, false, "", batch_of},
    {free_both, false, "", both_of},
    {offload_activations, false, "train.activation_offloading: host"},
    {offload, false, "optimizer.offload: host"},
    {narrow, true, "train.precision: bf16"},
    {quantize, true, "adapter.type: qlora"},
    {lower_rank, true, "adapter.rank: 8"},
    {smaller_state<OptimizerType::adamw_8bit>, true, "optimizer.type: adamw_8bit"},
    {smaller_state<OptimizerType::adafactor>, true, "optimizer.type: adafactor"},
    {adapt, true, "adapter.type: lora"},
    {adapt_quantized, true, "adapter.type: qlora"},
    {shorten, true, "", length_of},
};

struct FoundRemedy {
  std::string text;   // the settings
  int64_t bytes = 0;  // that the job needs under them
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
    Attempt attempt{asked, original};
    if (!remedy.change(attempt)) continue;
    if (remedy.frees) attempt.search.fixed_checkpointing = attempt.search.fixed_batch = false;
    if (least_held(attempt) >= original.available_bytes) continue;
    const SearchResult result = find_fit(attempt.plan, attempt.search);
    if (!result.fits) continue;
    found.push_back({remedy.settings ? remedy.settings(attempt.plan, result.trial) : remedy.setting,
                     result.trial.predicted_peak_bytes});
    if (found.size() == kShownRemedies) break;
  }
  return found;
}

std::string texts_of(const std::vector<FoundRemedy>& remedies) {
  std::vector<std::string> texts;
  for (const FoundRemedy& remedy : remedies)
    texts.push_back(remedy.text + " (needs " + format_bytes(remedy.bytes) + ")");
  return join(texts, "; or ");
}

}  // namespace

void refuse(const Schedule& asked, const Trial& smallest, const Search& search) {
  const MemoryLine& largest = largest_line(smallest.memory);
  const std::vector<FoundRemedy> remedies = remedies_for(asked, search);
  if (smallest.predicted_peak_bytes <= search.available_bytes) refuse_host(asked, smallest.host_memory);  // which has less room than is missing on the card
  const std::string shortage = search.fixed_offload ? "" : state_shortage(asked);
  std::vector<std::string> moved;
  if (!search.fixed_offloading && smallest.activations == Offload::host) moved.push_back("the layers' inputs");
  if (!search.fixed_offload && smallest.state == Offload::host) moved.push_back("the optimizer's state");
  const bool limited = asked.job.hardware.memory_limit == search.available_bytes,
             none = remedies.empty();
  throw Error(ErrorKind::fit,
              "needs " + format_bytes(smallest.predicted_peak_bytes) + ", " +
                  format_bytes(search.available_bytes) + " available on " + asked.device.name() +
                  (limited ? " (hardware.memory_limit)" : "") +
                  (moved.empty() ? "" : ", even with " + join(moved, " and ") + " in the host's memory") +
                  "; the largest part is " + largest.name + " (" + format_bytes(largest.bytes) + ": " +
                  largest.formula + ")" + (shortage.empty() ? "" : "; " + shortage) +
                  (none ? "" : "; the cheapest remedy: " + texts_of(remedies)))
      .hint(none ? "no single setting makes it fit: use a smaller model or a device with more memory"
                 : "set " + remedies[0].text);
}

}  // namespace forge
