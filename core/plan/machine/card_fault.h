#pragma once
// Checks what the engine of a card needs of it and of its driver, known before anything is started.
//
//   if (const CardFault fault = card_fault(device)) …   // "driver 535.183.01 knows CUDA 12.2, …"
#include "core/plan/machine/device.h"

namespace forge {

// The engine of the card is that of the profile which its compute capability picks.
CardFault card_fault(const Device& device);

// The engine of such a card; empty where none computes on it.
std::string engine_for(const Device& card);

// `targets`: GPU generations that an engine's kernels are compiled for, "80;86;90". Their code runs on cards of the same
// major capability and no lower minor one.
CardFault generation_fault(int64_t compute_capability, const std::string& targets);

}  // namespace forge
