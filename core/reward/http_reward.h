#pragma once
// Scores from a server: the reward type `http`. docs/rewards.md has the request and the answer.
#include <functional>
#include <vector>

#include "core/config/job.h"
#include "core/net/http.h"
#include "core/reward/score.h"

namespace forge {

// Each completion is POSTed by itself, as patiently as http_requests is. What then has no score has failed, with the reason; it
// is never 0.
std::vector<Score> score_by_http(const RewardConfig& reward, const std::vector<RewardSample>& samples, int64_t step,
                                 const std::function<bool()>& stopped);

// One answer, read.
Score score_of(const RewardConfig& reward, const HttpAnswer& answer);

}  // namespace forge
