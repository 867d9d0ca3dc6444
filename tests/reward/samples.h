#pragma once
// Makes samples and rewards for tests.
#include <memory>
#include <string>

#include "core/job/job.h"
#include "core/learn/reward/score.h"
#include "core/learn/reward/verifiers.h"

namespace forge {

inline RewardSample sample_of(const std::string& completion, const std::string& row = "{}") {
  RewardSample sample;
  sample.completion = completion;
  sample.row = std::make_shared<const Json>(parse_json(row, "row", ErrorKind::data));
  sample.place = "rows.jsonl:1";
  return sample;
}

inline RewardConfig reward_of(RewardType type, const std::string& name = "r") {
  RewardConfig reward;
  reward.become(type);
  reward.name = name;
  return reward;
}

}  // namespace forge
