#pragma once
// The examples of each optimizer step, and the cutting of a step into micro-batches. These are
// functions of seed, data and settings only: resume, threads, packing and world size cannot change
// a step's examples.
#include <cstdint>
#include <vector>

#include "core/data/batch/packing.h"
#include "core/job/job.h"

namespace forge {

// Returns the optimizer steps of one epoch (from 0), each a list of example indices. The last step
// may be smaller. Shuffling is a permutation by (seed, epoch). group_by_length sorts inside windows
// of 50 steps, as transformers does, so that a step's examples have similar lengths.
// global_batch_tokens fills steps up to a token budget: with rows of data.max_length, by best fit
// inside windows of 64 steps, so that steps and the micro-batches cut out of them are full (98 %
// and more when examples are short against a row). With shuffle: false or group_by_length it fills
// them in order, since that order was asked for.
Parts epoch_steps(const std::vector<int64_t>& lengths, const Job& job, int64_t epoch);

// Returns the prompts of one epoch in batches of rollout.prompts_per_step, in the order that
// epoch_steps gives. The last batch may be smaller.
Parts prompt_batches(const std::vector<int64_t>& lengths, const Job& job, int64_t epoch);

// Returns the micro-batches of one step. With packing: best fit into `micro_batch_tokens`, so that
// they are few and full (a longer example has a micro-batch of its own). Without: in order, up to
// `micro_batch_size` examples and, if it is set, `micro_batch_tokens` tokens. They are `divisor`
// times smaller than the job says.
Parts micro_batches(const std::vector<int64_t>& step, const std::vector<int64_t>& lengths,
                    const Job& job, int64_t divisor = 1);

// The limits of a micro-batch: train.micro_batch_tokens and train.micro_batch_size.
struct MicroBatch {
  int64_t tokens = 0, examples = 0;
};
// Returns the same for a micro-batch that is not in a job.
Parts micro_batches(const std::vector<int64_t>& step, const std::vector<int64_t>& lengths, bool packing, const MicroBatch& most);

}  // namespace forge
