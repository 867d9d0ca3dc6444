#pragma once
// The reference provider's memory, without torch: what LibTorch's autograd keeps of one layer
// (core/model/decoder.cpp) and what is alive beside it at the peak.
#include "core/plan/memory.h"

namespace forge {

std::vector<std::string> reference_faults(const ActivationShape& shape);
std::vector<MemoryLine> reference_activation_lines(const ActivationShape& shape);

// Positions of one chunk of logits in the engine's head.
constexpr int64_t kReferenceHeadChunk = 512;

}  // namespace forge
