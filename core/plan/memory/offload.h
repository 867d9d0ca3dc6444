#pragma once
// What a GPU's run keeps in pinned memory of the host instead of the card's.
//
//   train.activation_offloading   the inputs of layers, between forward and backward: copied out and back beside the layers
//                                 (core/graph/offload.h)
//   optimizer.offload             the optimizer's state: the update kernel reads and writes it there, so that a step carries it over PCIe
//                                 once each way
#include <string>
#include <vector>

#include "core/plan/plan.h"

namespace forge {

// Why layers' inputs cannot wait there; empty where they can. `provider`: auto while that is open.
std::string activation_offload_refusal(bool cuda, const std::string& provider);
// Why the state of this job cannot lie there. A precision that is still open is taken to be one that can.
std::string offload_refusal(const Job& job, bool cuda);
// Whether the state can, and the host has room for it.
bool can_offload(const Plan& plan);
// Bytes of the host's memory for all that is moved there.
int64_t host_room(const Plan& plan);
// What a plan says of a host whose room is too small for the state; empty where it is not.
std::string state_shortage(const Plan& plan);
// Throws KeyError(job) or KeyError(fit) where the job asks for what cannot be.
void require_offload(const Plan& plan);
// Throws KeyError(fit) for a plan that fits on the card, and whose Plan::host_memory does not fit on the host.
[[noreturn]] void refuse_host(const Plan& plan);
// Needs a plan that fits. Says why, where the plan decided.
void explain_offload(Plan& plan, bool asked_activations, bool asked_state);
// "8.2 GiB of optimizer state lie pinned …", for a plan with some; and the same of layers' inputs.
std::vector<std::string> offload_warnings(const Plan& plan);

// By estimate: what goes over PCIe, both directions at once. The link is taken to have 16 lanes, of version 3 in a poor run and of
// version 4 in a good one.
struct PcieSeconds {
  double good = 0, poor = 0;
};
// Of the optimizer's state, in a step.
PcieSeconds state_seconds(const Plan& plan);
// Of layers' inputs, in a forward or a backward.
PcieSeconds activation_seconds(const Plan& plan);

}  // namespace forge
