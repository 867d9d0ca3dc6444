#pragma once
// The form in which processes and servers that score a completion receive it (docs/rewards.md).
#include "core/learn/reward/score.h"

namespace forge {

Json reward_item(const RewardSample& sample, int64_t step);

}  // namespace forge
