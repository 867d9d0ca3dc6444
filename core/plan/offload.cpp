#include "core/plan/offload.h"

#include <algorithm>

#include "core/base/key_error.h"
#include "core/base/text.h"
#include "core/config/names.h"
#include "core/families/trained_layout.h"
#include "core/plan/inventory.h"
#include "core/plan/resolve.h"
#include "core/plan/value_plan.h"

namespace forge {
namespace {

constexpr const char* kKey = "optimizer.offload";
// What the engine takes of the host beside it: CUDA's libraries, and tensors that are converted on their way to the card.
constexpr int64_t kEngineBytes = int64_t{2} << 30;

std::vector<MemoryLine> lines_on_host(const Plan& plan) {
  std::vector<MemoryLine> lines = host_lines(parameters_of(plan), plan.job);
  if (has_value_network(plan))
    for (MemoryLine& line : value_host_lines(plan)) lines.push_back(std::move(line));
  return lines;
}

int64_t bytes_if_offloaded(Plan plan) {
  plan.job.optimizer.offload = Offload::host;
  return total_bytes(lines_on_host(plan));
}

int64_t host_room(const Plan& plan) { return std::max<int64_t>(0, plan.device.cpu.available_bytes - kEngineBytes); }

}  // namespace

std::string offload_refusal(const Job& job, bool cuda) {
  if (!cuda) return "the run computes on the CPU, whose memory is the host's";
  const std::string by_torch = " updated by LibTorch's operations, which want the state on the card";
  if (!has_update_kernel(job.optimizer.type))
    return name_of(job.optimizer.type) + " is" + by_torch + " (adamw, adamw_8bit and lion have kernels that reach the host's memory)";
  if (!job.train.master_weights && job.train.precision.value_or(Precision::fp32) != Precision::fp32)
    return "weights without fp32 masters (train.master_weights) are" + by_torch;
  return "";
}

bool can_offload(const Plan& plan) {
  if (!offload_refusal(plan.job, plan.device.cuda).empty()) return false;
  const int64_t bytes = bytes_if_offloaded(plan);
  return bytes > 0 && bytes <= host_room(plan);
}

std::string host_shortage(const Plan& plan) {
  if (!offload_refusal(plan.job, plan.device.cuda).empty()) return "";
  const int64_t bytes = bytes_if_offloaded(plan), room = host_room(plan);
  if (bytes <= room) return "";
  return "the optimizer's state takes " + format_bytes(bytes) + " of the host's memory, which has " + format_bytes(room) +
         " for it (" + format_bytes(plan.device.cpu.available_bytes) + " free, of which the engine takes " + format_bytes(kEngineBytes) + ")";
}

void require_offload(const Plan& plan) {
  if (plan.job.optimizer.offload != Offload::host) return;
  if (const std::string why = offload_refusal(plan.job, plan.device.cuda); !why.empty())
    throw KeyError(ErrorKind::job, kKey, "host: " + why, "write auto or none");
  if (const std::string why = host_shortage(plan); !why.empty())
    throw KeyError(ErrorKind::fit, kKey, "host: " + why,
                   "free memory of the host, take optimizer.type: adamw_8bit, whose state is a quarter of adamw's, or write none");
}

void explain_offload(Plan& plan, bool asked) {
  plan.host_memory = lines_on_host(plan);
  if (asked || !plan.device.cuda) return;
  const std::string refusal = offload_refusal(plan.job, true), room = format_bytes(plan.available_bytes);
  if (plan.job.optimizer.offload == Offload::host)
    derived(plan, kKey, "with its " + format_bytes(total_bytes(plan.host_memory)) + " on the card nothing fits into " + room);
  else
    derived(plan, kKey, refusal.empty() ? "all fits on the card: " + format_bytes(plan.predicted_peak_bytes) + " of " + room : refusal);
}

std::string offload_warning(const Plan& plan) {
  const PcieSeconds seconds = offload_seconds(plan);
  return format_bytes(total_bytes(plan.host_memory)) + " of optimizer state lie pinned in the host's memory (optimizer.offload), which has " +
         format_bytes(plan.device.cpu.available_bytes) + " free; each step reads and writes them over PCIe, by estimate in " +
         format_seconds(seconds.good) + " to " + format_seconds(seconds.poor);
}

PcieSeconds offload_seconds(const Plan& plan) {
  constexpr double kGood = 24e9, kPoor = 10e9;  // bytes a second each way, of large transfers
  const auto bytes = static_cast<double>(total_bytes(plan.host_memory));
  return {bytes / kGood, bytes / kPoor};
}

}  // namespace forge
