#include "core/plan/fit/offload.h"

#include <algorithm>

#include "core/job/names.h"
#include "core/lib/base/key_error.h"
#include "core/lib/base/text.h"
#include "core/model/families/trained_layout.h"
#include "core/plan/fit/run_memory.h"
#include "core/plan/stages/inventory.h"

namespace forge {
namespace {

constexpr const char *kState = "optimizer.offload", *kActivations = "train.activation_offloading";
// Bytes of the host that the engine takes beside the offloaded lines: CUDA's libraries, and tensors
// that are converted on their way to the card.
constexpr int64_t kEngineBytes = int64_t{2} << 30;
constexpr const char* kOnProcessor = "the run computes on the CPU, whose memory is the host's";

int64_t state_bytes_if_offloaded(const Compute& plan) {
  return total_bytes(fixed_memory(plan, parameters_of(plan), Offload::host).on_host);
}

// Returns the bytes of layers' inputs among the lines of the host.
int64_t activation_bytes(const std::vector<MemoryLine>& host_memory) {
  int64_t bytes = 0;
  for (const MemoryLine& line : host_memory) bytes += line.name == kLayerInputs ? line.bytes : 0;
  return bytes;
}
int64_t state_bytes(const std::vector<MemoryLine>& host_memory) { return total_bytes(host_memory) - activation_bytes(host_memory); }

std::string of_room(const Setup& plan) {
  return " of the host's memory, which has " + format_bytes(host_room(plan)) + " for it (" + format_bytes(plan.device.cpu.available_bytes) +
         " free, of which the engine takes " + format_bytes(kEngineBytes) + ")";
}

PcieSeconds pcie_seconds(int64_t bytes) {
  constexpr double kGood = 24e9, kPoor = 10e9;  // bytes a second each way, of large transfers
  return {static_cast<double>(bytes) / kGood, static_cast<double>(bytes) / kPoor};
}

std::string range(const PcieSeconds& seconds) { return "in an estimated " + format_seconds(seconds.good) + " to " + format_seconds(seconds.poor); }

}  // namespace

int64_t host_room(const Setup& plan) { return std::max<int64_t>(0, plan.device.cpu.available_bytes - kEngineBytes); }

std::string activation_offload_refusal(bool cuda) { return cuda ? "" : kOnProcessor; }

std::string offload_refusal(const Job& job, bool cuda) {
  if (!cuda) return kOnProcessor;
  const std::string by_torch = " updated by LibTorch's operations, which need the state on the card";
  if (!has_update_kernel(job.optimizer.type))
    return name_of(job.optimizer.type) + " is" + by_torch + " (adamw, adamw_8bit and lion have kernels that reach the host's memory)";
  if (!job.train.master_weights && job.train.precision.value_or(Precision::fp32) != Precision::fp32)
    return "weights without fp32 masters (train.master_weights) are" + by_torch;
  return "";
}

bool can_offload(const Compute& plan) {
  if (!offload_refusal(plan.job, plan.device.cuda).empty()) return false;
  const int64_t bytes = state_bytes_if_offloaded(plan);
  return bytes > 0 && bytes <= host_room(plan);
}

std::string state_shortage(const Compute& plan) {
  if (!offload_refusal(plan.job, plan.device.cuda).empty()) return "";
  const int64_t bytes = state_bytes_if_offloaded(plan);
  return bytes <= host_room(plan) ? "" : "the optimizer's state takes " + format_bytes(bytes) + of_room(plan);
}

void require_offload(const Compute& plan) {
  if (plan.job.optimizer.offload != Offload::host) return;
  if (const std::string why = offload_refusal(plan.job, plan.device.cuda); !why.empty())
    throw KeyError(ErrorKind::job, kState, "host: " + why, "write auto or none");
  if (const std::string why = state_shortage(plan); !why.empty())
    throw KeyError(ErrorKind::fit, kState, "host: " + why,
                   "free memory of the host, use optimizer.type: adamw_8bit, whose state is a quarter of adamw's, or write none");
}

void refuse_host(const Setup& plan, const std::vector<MemoryLine>& host_memory) {
  const int64_t state = state_bytes(host_memory);
  throw KeyError(ErrorKind::fit, kActivations,
                 "host: the layers' inputs take " + format_bytes(activation_bytes(host_memory)) +
                     (state > 0 ? ", and the optimizer's state " + format_bytes(state) + "," : "") + of_room(plan),
                 "free memory of the host, or lower train.micro_batch_tokens or data.max_length");
}

Origins offload_origins(const Fitted& plan, bool asked_activations, bool asked_state) {
  Origins origins;
  if (!plan.device.cuda) return origins;
  const std::string room = format_bytes(plan.available_bytes), fits = "all fits on the card: " + format_bytes(plan.predicted_peak_bytes) + " of " + room;
  const auto explain = [&](const char* key, bool moved, int64_t bytes, const std::string& refusal) {
    origins[key] = derived(moved             ? "with its " + format_bytes(bytes) + " on the card nothing fits into " + room
            : refusal.empty() ? fits
                              : refusal);
  };
  if (!asked_activations)
    explain(kActivations, plan.job.train.activation_offloading == Offload::host, activation_bytes(plan.host_memory), "");
  if (!asked_state) explain(kState, plan.job.optimizer.offload == Offload::host, state_bytes(plan.host_memory), offload_refusal(plan.job, true));
  return origins;
}

std::vector<std::string> offload_warnings(const Fitted& plan) {
  std::vector<std::string> warnings;
  const auto pinned = [&](int64_t bytes, const char* what, const char* key) {
    return format_bytes(bytes) + " of " + what + " pinned in the host's memory (" + key + "), which has " + format_bytes(plan.device.cpu.available_bytes) + " free; ";
  };
  if (const int64_t bytes = activation_bytes(plan.host_memory); bytes > 0)
    warnings.push_back(pinned(bytes, "layer inputs are", kActivations) + "each micro-batch copies them over PCIe, out in its forward and back in its backward, " +
                       range(activation_seconds(plan)) + " each way, while the layers compute");
  if (const int64_t bytes = state_bytes(plan.host_memory); bytes > 0)
    warnings.push_back(pinned(bytes, "optimizer state are", kState) + "each step reads and writes them over PCIe, " + range(state_seconds(plan)));
  return warnings;
}

PcieSeconds state_seconds(const Fitted& plan) { return pcie_seconds(state_bytes(plan.host_memory)); }
PcieSeconds activation_seconds(const Fitted& plan) { return pcie_seconds(activation_bytes(plan.host_memory)); }

}  // namespace forge
