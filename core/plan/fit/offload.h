#pragma once
// Memory that a GPU's run keeps pinned in the host instead of on the card.
//
//   train.activation_offloading   the inputs of layers, between forward and backward: copied out and back beside the layers
//                                 (core/model/graph/offload.h)
//   optimizer.offload             the optimizer's state: the update kernel reads and writes it there, so that a step carries it over PCIe
//                                 once each way
//
// An update touches each number of the state once, so kernels over pinned memory take one pass of
// PCIe in each direction, without copies, buffers on the card or a schedule; bitsandbytes' paged
// state comes by page faults, and DeepSpeed computes the update on the CPU. Bits are those of a run
// with the state on the card, so a checkpoint goes on either way. The search moves layers' inputs
// first and the state last, since every step waits for it. Gradients and masters stay: backward and
// forward need them.
#include <string>
#include <vector>

#include "core/plan/fit/fitted.h"

namespace forge {

// Returns why layers' inputs cannot wait there; empty if they can. `provider` is auto while it is
// open.
std::string activation_offload_refusal(bool cuda);
// Returns why the state of this job cannot be there; empty if it can. A precision that is still
// open is taken to be one that can.
std::string offload_refusal(const Job& job, bool cuda);
// True if the state can be in the host's memory, and the host has room for it.
bool can_offload(const Compute& plan);
// Returns the bytes of the host's memory for all that is moved there.
int64_t host_room(const Setup& plan);
// Returns the sentence about a host whose room is too small for the state; empty if it has the
// room.
std::string state_shortage(const Compute& plan);
// Throws KeyError(job) or KeyError(fit) if the job asks for an offload that is not possible.
void require_offload(const Compute& plan);
// Throws KeyError(fit) for a plan that fits on the card, and whose lines of the host do not fit
// there.
[[noreturn]] void refuse_host(const Setup& plan, const std::vector<MemoryLine>& host_memory);
// Returns the origins of the keys that the plan decided.
Origins offload_origins(const Fitted& plan, bool asked_activations, bool asked_state);
// Returns "8.2 GiB of optimizer state lie pinned …" for a plan with some, and a like sentence for
// layers' inputs.
std::vector<std::string> offload_warnings(const Fitted& plan);

// Estimated seconds of a transfer over PCIe, with both directions at once. The link is assumed to
// have 16 lanes, of version 3 in a poor run and of version 4 in a good one.
struct PcieSeconds {
  double good = 0, poor = 0;
};
// Returns the time of the optimizer's state, in a step.
PcieSeconds state_seconds(const Fitted& plan);
// Returns the time of layers' inputs, in a forward or a backward.
PcieSeconds activation_seconds(const Fitted& plan);

}  // namespace forge
