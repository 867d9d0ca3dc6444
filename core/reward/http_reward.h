#pragma once
// Scores from a server: the reward type `http`. docs/rewards.md has the request and the answer.
#include <functional>
#include <vector>

#include "core/config/job.h"
#include "core/reward/score.h"

namespace forge {

// Each completion is POSTed by itself; one that fails (no answer, status 408, 429 or 5xx) is sent again after a pause, kMostSends
// times in all. What then has no score has failed, with the reason; it is never 0.
constexpr int kMostSends = 3;
std::vector<Score> score_by_http(const RewardConfig& reward, const std::vector<RewardSample>& samples, int64_t step,
                                 const std::function<bool()>& stopped);

}  // namespace forge
