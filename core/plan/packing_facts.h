#pragma once
// Tells how full the batches of a plan are.
#include <cstdint>
#include <vector>

#include "core/data/batch/packing.h"
#include "core/plan/fit/fitted.h"

namespace forge {

// Fill of steps and micro-batches, over the first steps of the first epoch. Nothing is padded
// either way: a micro-batch that is half full takes half the time, so this tells how few launches
// the tokens take.
struct PackingFacts {
  double micro_batches_per_step = 0;  // 0: not known, the data are only estimated
  double micro_batch_fill = 0;        // tokens over train.micro_batch_tokens
  double step_fill = 0;               // tokens over train.global_batch_tokens; 0 without it
};

// Returns the fill of the batches. `first_epoch` has the steps of the first epoch.
PackingFacts packing_of(const Fitted& plan, const std::vector<int64_t>& lengths, const Parts& first_epoch);

}  // namespace forge
