#pragma once
// The models whose steps `forge bench --kernels` times. Together their lists hold every op that a model under `fused` can
// have, in the sizes that one trains on a processor.
#include <span>
#include <vector>

#include "core/families/step.h"

namespace forge {

struct RateModel {
  ModelSpec spec;
  int64_t tokens = 0, length = 0;  // of a micro-batch, and of each of its sequences
};

enum class RateAdapter { none, lora, dora };

// The first of each family is its smallest.
const std::vector<RateModel>& rate_models();
// Which adapters a model is timed with, after it was without.
std::span<const RateAdapter> rate_adapters(const RateModel& model);
AdapterConfig adapter_config(RateAdapter adapter);

}  // namespace forge
