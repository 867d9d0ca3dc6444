#pragma once
// The report's part on completions that were drawn: curves by reward, and findings for the reader.
#include <map>
#include <string>
#include <vector>

#include "core/lib/io/json.h"
#include "core/run/svg.h"

namespace forge {

// Curves by name, each with a value for every x. NaN where an event has no number.
struct RolloutCurves {
  void add(const Json& event);  // of kind rollout, eval or step

  std::vector<double> steps, eval_steps, train_steps;
  // Names: reward, reward_std, tokens, truncated_share, flat_share, entropy, sampler_gap,
  // distinct_2, sample_seconds, score_seconds, train_seconds, staleness, wait_seconds, correction,
  // correction_cut_share; "reward NAME" for each reward of the job, and "explains NAME" for those
  // with a weight.
  std::map<std::string, std::vector<double>> rollouts;
  std::map<std::string, std::vector<double>> evaluations;  // reward, tokens, distinct_2, "reward NAME"
  std::map<std::string, std::vector<double>> training;     // clip_low_share, clip_high_share, dual_clip_share, kl, kl_old, ratio
  bool empty() const { return steps.empty(); }
};

std::vector<Chart> rollout_charts(const RolloutCurves& curves);

// Returns findings as sentences, each with its numbers: the reward rose while held-out reward fell,
// a measured reward fell, one reward explains nearly all of the total, lengths drifted, most groups
// are flat, most completions are cut, completions became alike.
std::vector<std::string> rollout_findings(const RolloutCurves& curves);

}  // namespace forge
