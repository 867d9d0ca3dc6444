#pragma once
// Scores from a server: the reward type `http`. docs/rewards.md has the request and the answer.
#include <functional>
#include <vector>

#include "core/job/job.h"
#include "core/learn/reward/score.h"
#include "core/lib/net/http.h"

namespace forge {

// POSTs each completion by itself, with the retries of http_requests(). A completion that then has
// no score has failed, with the reason; its score is never 0.
std::vector<Score> score_by_http(const RewardConfig& reward, const std::vector<RewardSample>& samples, int64_t step,
                                 const std::function<bool()>& stopped);

// Reads the score in one answer.
Score score_of(const HttpReward& reward, const HttpAnswer& answer);

}  // namespace forge
