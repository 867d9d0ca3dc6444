#pragma once
// What the plan must know of the fused provider, without torch.
#include "core/plan/memory.h"

namespace forge {

std::vector<std::string> fused_faults(const ActivationShape& shape);
std::vector<MemoryLine> fused_activation_lines(const ActivationShape& shape);

}  // namespace forge
