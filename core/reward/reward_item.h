#pragma once
// A completion as processes and servers that score it read it (docs/rewards.md).
#include "core/reward/score.h"

namespace forge {

Json reward_item(const RewardSample& sample, int64_t step);

}  // namespace forge
