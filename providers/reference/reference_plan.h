#pragma once
// The reference provider's memory, without torch: what LibTorch's autograd keeps of one layer
// (core/model/decoder.cpp) and what is alive beside it at the peak, by rehearsal.h.
#include "core/plan/memory.h"

namespace forge {

std::vector<std::string> reference_faults(const ActivationShape& shape);
std::vector<MemoryLine> reference_activation_lines(const ActivationShape& shape);

}  // namespace forge
