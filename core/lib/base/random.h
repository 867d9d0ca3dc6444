#pragma once
// Counter-based random numbers: Philox 4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as
// 1, 2, 3", 2011). A value is a function of (seed, stream, index), never of call order, so resume,
// threads and micro-batches cannot change it.
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace forge {

// Returns four independent 32-bit words for a 64-bit key and a 128-bit counter (stream, index).
std::array<uint32_t, 4> philox(uint64_t seed, uint64_t stream, uint64_t index);

// Returns a uniform double in [0, 1) with 53 bits.
double uniform(uint64_t seed, uint64_t stream, uint64_t index);
// Returns a standard normal number (Box-Muller on one Philox block).
double normal(uint64_t seed, uint64_t stream, uint64_t index);

// Returns a stable 64-bit stream number for a name, e.g. "lora_A/model.layers.0.self_attn.q_proj".
uint64_t stream_of(std::string_view name);

// Returns a uniformly random order of 0…count-1 (Fisher-Yates).
std::vector<int64_t> permutation(uint64_t seed, uint64_t stream, int64_t count);

}  // namespace forge
