#include "core/learn/reinforce/advantage.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace forge {

MeanAndDeviation moments_of(const std::vector<double>& values) {
  MeanAndDeviation moments;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) moments.mean += value;
  moments.mean /= count;
  for (const double value : values) moments.deviation += (value - moments.mean) * (value - moments.mean);
  moments.deviation = values.size() > 1 ? std::sqrt(moments.deviation / (count - 1)) : 0;
  return moments;
}

namespace {

void whiten(const std::vector<CompletionReward>& rewards, Advantages& made) {
  double tokens = 0, mean = 0, variance = 0;
  const auto each = [&](auto use) {
    for (size_t i = 0; i < rewards.size(); ++i)
      if (made.counts[i]) use(made.values[i], static_cast<double>(rewards[i].tokens));
  };
  each([&](double value, double weight) { tokens += weight, mean += weight * value; });
  if (tokens == 0) return;
  mean /= tokens;
  each([&](double value, double weight) { variance += weight * (value - mean) * (value - mean) / tokens; });
  for (size_t i = 0; i < rewards.size(); ++i)
    if (made.counts[i]) made.values[i] = (made.values[i] - mean) / std::sqrt(std::max(variance, 1e-8));
}

}  // namespace

Advantages make_advantages(const std::vector<CompletionReward>& rewards, const AdvantageRule& rule) {
  Advantages made{std::vector<double>(rewards.size()), std::vector<bool>(rewards.size())};
  std::map<int64_t, std::vector<size_t>> groups;
  for (size_t i = 0; i < rewards.size(); ++i) {
    std::vector<size_t>& members = groups[rewards[i].group];
    if (rewards[i].reward && rewards[i].tokens > 0) members.push_back(i);
  }
  std::vector<double> all;  // rewards that count
  for (const auto& [id, members] : groups) {
    if (members.size() < (rule.baseline == Baseline::none ? 1 : 2)) {
      ++made.dropped_groups;
      continue;
    }
    ++made.groups;
    std::vector<double> own;
    for (const size_t i : members) own.push_back(*rewards[i].reward);
    all.insert(all.end(), own.begin(), own.end());
    const MeanAndDeviation moments = moments_of(own);
    const bool flat = members.size() > 1 && moments.deviation < kFlatDeviation;
    made.flat_groups += flat;
    const auto count = static_cast<double>(members.size());
    for (const size_t i : members) {
      made.counts[i] = true;
      double value = *rewards[i].reward;
      if (rule.baseline != Baseline::none) value = flat ? 0 : value - moments.mean;
      if (rule.baseline == Baseline::others) value *= count / (count - 1);
      if (rule.scale == AdvantageScale::group) value = flat ? 0 : value / (moments.deviation + rule.epsilon);
      made.values[i] = value;
    }
  }
  if (rule.scale != AdvantageScale::batch || all.empty()) return made;
  if (rule.baseline == Baseline::none) {
    whiten(rewards, made);
  } else {
    const double deviation = moments_of(all).deviation;
    for (double& value : made.values) value /= deviation + rule.epsilon;
  }
  return made;
}

}  // namespace forge
