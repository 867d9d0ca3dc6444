#pragma once
// Models whose steps `forge bench --kernels` times. Together their lists hold every op that a model
// under `fused` can have, in the sizes that are trained on a processor.
#include <span>
#include <vector>

#include "core/model/families/step.h"

namespace forge {

struct RateModel {
  ModelSpec spec;
  int64_t tokens = 0, length = 0;  // of a micro-batch, and of each of its sequences
};

enum class RateAdapter { none, lora, dora };

// Returns the models. The first of each family is its smallest.
const std::vector<RateModel>& rate_models();
// Returns the adapters that a model is timed with, after it was timed without.
std::span<const RateAdapter> rate_adapters(const RateModel& model);
AdapterConfig adapter_config(RateAdapter adapter);

}  // namespace forge
