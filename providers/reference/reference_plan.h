#pragma once
// The reference provider's memory, without torch: rehearses a step and holds and frees all its
// allocations in their order, so that the peak is the engine's and not an estimate of it.
// tests/memory compares both; bench/memory measures them on real sizes.
//
// Formulas with measured coefficients were right for one shape and wrong for the next.
#include "core/plan/memory/memory.h"
#include "core/plan/stages/provider.h"

namespace forge {

std::vector<std::string> reference_faults(const ActivationShape& shape);
Choice<Attention> reference_attention(const ActivationShape& shape, const Attributes& of);
std::vector<MemoryLine> reference_activation_lines(const ActivationShape& shape);
std::vector<MemoryLine> reference_decoding_lines(const ActivationShape& shape, const DecodingShape& decoding);
// Returns them with the workspaces of so many threads that multiply; 0: other lines count them.
std::vector<MemoryLine> decoding_lines_of_threads(const ActivationShape& shape, const DecodingShape& decoding, int64_t threads);

}  // namespace forge
