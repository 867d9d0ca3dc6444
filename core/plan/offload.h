#pragma once
// optimizer.offload: the optimizer's state in pinned memory of the host instead of a GPU's. The update kernel reads and writes it there, so
// that a step carries it over PCIe once each way.
#include <string>
#include <vector>

#include "core/plan/plan.h"

namespace forge {

// Why the state of this job cannot lie there; empty where it can. A precision that is still open is taken to be one that can.
std::string offload_refusal(const Job& job, bool cuda);
// Whether it can, and the host has room for it.
bool can_offload(const Plan& plan);
// What a plan says of a host whose room is too small; empty where it is not.
std::string host_shortage(const Plan& plan);
// Throws KeyError(job) or KeyError(fit) where the job asks for it and it cannot be.
void require_offload(const Plan& plan);
// Needs a plan that fits. Sets Plan::host_memory and, where the plan decided, why.
void explain_offload(Plan& plan, bool asked);
// "8.2 GiB of optimizer state lie pinned …", for a plan with some.
std::string offload_warning(const Plan& plan);
// By estimate, of a step: what goes over PCIe, both directions at once. The link is taken to have 16 lanes, of version 3 in a poor run
// and of version 4 in a good one.
struct PcieSeconds {
  double good = 0, poor = 0;
};
PcieSeconds offload_seconds(const Plan& plan);

}  // namespace forge
