#pragma once
// Checks what the engine of a card needs of the card and of its driver, before anything is started.
//
//   if (const CardFault fault = card_fault(device)) …   // "driver 535.183.01 knows CUDA 12.2, …"
#include "core/plan/machine/device.h"

namespace forge {

// Returns why the engine of a card cannot run on it. The engine is that of the profile that its
// compute capability picks.
CardFault card_fault(const Device& device);

// Returns the engine of such a card; empty if none computes on it.
std::string engine_for(const Device& card);

// Returns why an engine's kernels do not run on a card. `targets` are the GPU generations that they
// are compiled for: "80;86;90". Their code runs on cards of the same major capability and no lower
// minor one.
CardFault generation_fault(int64_t compute_capability, const std::string& targets);

}  // namespace forge
