#pragma once
// Which examples make an optimizer step, and how a step is cut into micro-batches. Functions of seed, data and
// settings only: resume, threads, packing and world size cannot change a step's examples.
#include <cstdint>
#include <vector>

#include "core/config/job.h"

namespace forge {

// The optimizer steps of one epoch (from 0), each a list of example indices in order. The last step may be smaller.
// Shuffling is a permutation by (seed, epoch); group_by_length sorts inside windows of 50 steps, as transformers
// does, so that a step's examples have similar lengths; global_batch_tokens fills steps up to a token budget.
std::vector<std::vector<int64_t>> epoch_steps(const std::vector<int64_t>& lengths, const Job& job, int64_t epoch);

// The micro-batches of one step. With packing: in order, as many examples as fit `micro_batch_tokens` (an example
// longer than that stands alone). Without: `micro_batch_size` examples each.
std::vector<std::vector<int64_t>> micro_batches(const std::vector<int64_t>& step, const std::vector<int64_t>& lengths,
                                                const Job& job);

}  // namespace forge
