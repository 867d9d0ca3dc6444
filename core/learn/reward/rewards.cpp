#include "core/learn/reward/rewards.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <thread>

#include "core/learn/reward/http_reward.h"
#include "core/lib/base/key_error.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

// Runs a verifier on all samples with threads. Verifiers are pure functions, so threads only change
// the time. A pattern may take seconds for one text.
std::vector<Score> verify_all(const Verifier& verify, const std::vector<RewardSample>& samples,
                              const std::function<bool()>& stopped) {
  constexpr size_t kEach = 16;  // too few for a thread
  std::vector<Score> scores(samples.size());
  std::vector<std::exception_ptr> problems(samples.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < samples.size(); i = next++) try {
        if (stopped && stopped()) throw ScoringStopped{};
        scores[i] = verify(samples[i]);
      } catch (...) {
        problems[i] = std::current_exception();
      }
  };
  std::vector<std::jthread> threads;
  const size_t most = std::max<size_t>(1, std::thread::hardware_concurrency());
  for (size_t t = 1; t < std::min(most, samples.size() / kEach); ++t) threads.emplace_back(work);
  work();
  threads.clear();  // joins
  for (const std::exception_ptr& problem : problems)
    if (problem) std::rethrow_exception(problem);
  return scores;
}

int64_t most_unscored(const RewardConfig& reward, size_t samples) {
  return static_cast<int64_t>(std::floor(reward.max_unscored * static_cast<double>(samples) + 1e-9));
}

size_t index_of(const std::vector<RewardConfig>& rewards, const std::string& name) {
  for (size_t i = 0; i < rewards.size(); ++i)
    if (rewards[i].name == name) return i;
  FORGE_CHECK(false, "no reward is called " << name);
}

// Standardises each reward to mean 0 and standard deviation 1 among the members of `group`.
void normalize(std::vector<std::vector<double>>& values, const std::vector<size_t>& group) {
  constexpr double kFlat = 1e-8, kEpsilon = 1e-4;
  for (std::vector<double>& of_reward : values) {
    double mean = 0, squares = 0;
    for (const size_t i : group) mean += of_reward[i] / static_cast<double>(group.size());
    for (const size_t i : group) squares += (of_reward[i] - mean) * (of_reward[i] - mean);
    const double deviation =
        group.size() > 1 ? std::sqrt(squares / static_cast<double>(group.size() - 1)) : 0;
    for (const size_t i : group)
      of_reward[i] = deviation < kFlat ? 0 : (of_reward[i] - mean) / (deviation + kEpsilon);
  }
}

// Throws with up to kMostTold failures of one reward, a line each.
[[noreturn]] void refuse(const RewardConfig& reward, const std::vector<std::string>& failures, ErrorKind kind,
                         const std::string& hint) {
  std::string text;
  for (size_t i = 0; i < failures.size() && i < static_cast<size_t>(kMostTold); ++i)
    text += (i == 0 ? "" : "\n") + failures[i] + " (reward " + reward.name + ")";
  if (failures.size() > static_cast<size_t>(kMostTold))
    text += "\nand " + format_count(static_cast<int64_t>(failures.size()) - kMostTold) + " more";
  throw Error(kind, text).hint(hint);
}

}  // namespace

Rewards::Rewards(const Job& job) : configs_(job.rewards), mix_(job.reward_mix) {
  std::vector<KeyFault> faults;
  ErrorKind kind = ErrorKind::job;
  std::string hint;
  for (size_t i = 0; i < configs_.size(); ++i) {
    verifiers_.emplace_back();
    pools_.emplace_back();
    if (configs_[i].type() == RewardType::command) {
      pools_.back() = std::make_unique<ProcessPool>(configs_[i], CommandContext{job.name, job.seed});
      continue;
    }
    if (configs_[i].type() == RewardType::http || configs_[i].type() == RewardType::model) continue;
    try {
      verifiers_.back() = make_verifier(configs_[i], "rewards[" + std::to_string(i) + "]");
    } catch (const KeyError& error) {
      if (faults.empty()) kind = error.kind(), hint = error.hint();
      faults.insert(faults.end(), error.faults().begin(), error.faults().end());
    }
  }
  if (!faults.empty()) throw KeyError(kind, std::move(faults), hint);
}

bool Rewards::counts_tokens() const {
  return std::any_of(configs_.begin(), configs_.end(), [](const RewardConfig& reward) {
    const auto* length = reward.find<LengthReward>();
    return reward.type() == RewardType::overlong || (length && length->unit == LengthUnit::tokens);
  });
}

PoolCounts Rewards::counts(size_t reward) const {
  return pools_[reward] ? pools_[reward]->counts() : PoolCounts();
}

std::vector<Score> Rewards::scores_of(size_t i, const std::vector<RewardSample>& samples,
                                      const ScoreOptions& options) {
  if (options.stopped && options.stopped()) throw ScoringStopped{};
  if (configs_[i].type() == RewardType::model) return options.judge(configs_[i], samples);
  if (configs_[i].type() == RewardType::http) {
    std::vector<Score> scores = score_by_http(configs_[i], samples, options.step, options.stopped);
    if (options.stopped && options.stopped()) throw ScoringStopped{};
    return scores;
  }
  if (!pools_[i]) return verify_all(verifiers_[i], samples, options.stopped);
  const bool stop = configs_[i].on_error == OnRewardError::stop;
  const int64_t most = options.keep_going ? kMostTold : stop ? 0 : most_unscored(configs_[i], samples.size());
  return pools_[i]->score(samples, options.step, most, options.stopped);
}

std::vector<ScoredSample> Rewards::score(const std::vector<RewardSample>& samples,
                                         const ScoreOptions& options) {
  std::vector<ScoredSample> scored(samples.size());
  for (size_t k = 0; k < configs_.size(); ++k) {
    std::vector<Score> scores = scores_of(k, samples, options);
    for (size_t i = 0; i < samples.size(); ++i) scored[i].parts.push_back(std::move(scores[i]));
  }
  if (!options.keep_going) require_scores(configs_, samples, scored);
  combine(configs_, mix_, samples, scored);
  return scored;
}

void combine(const std::vector<RewardConfig>& rewards, const RewardMixConfig& mix,
             const std::vector<RewardSample>& samples, std::vector<ScoredSample>& scored) {
  std::vector<std::vector<double>> values(rewards.size(), std::vector<double>(samples.size()));
  std::map<int64_t, std::vector<size_t>> groups;  // those that have a total
  for (size_t i = 0; i < samples.size(); ++i) {
    scored[i].reason.clear();
    for (size_t k = 0; k < rewards.size(); ++k) {
      if (rewards[k].weight == 0) continue;
      const Score& own = scored[i].parts[k];
      const size_t gate = rewards[k].needs ? index_of(rewards, *rewards[k].needs) : k;
      for (const size_t part : {k, gate})
        if (!scored[i].parts[part].value && scored[i].reason.empty())
          scored[i].reason = rewards[part].name + ": " + scored[i].parts[part].reason;
      const bool open = !rewards[k].needs || scored[i].parts[gate].value.value_or(0) > 0;
      values[k][i] = open ? own.value.value_or(0) : 0;
    }
    if (scored[i].reason.empty()) groups[samples[i].group].push_back(i);
  }
  for (const auto& [id, group] : groups) {
    if (mix.normalize_each) normalize(values, group);
    for (const size_t i : group) {
      double total = 0;
      for (size_t k = 0; k < rewards.size(); ++k) total += rewards[k].weight * values[k][i];
      scored[i].total = mix.clip ? std::clamp(total, -*mix.clip, *mix.clip) : total;
    }
  }
}

void require_scores(const std::vector<RewardConfig>& rewards, const std::vector<RewardSample>& samples,
                    const std::vector<ScoredSample>& scored) {
  for (size_t k = 0; k < rewards.size(); ++k) {
    const std::string key = "rewards[" + std::to_string(k) + "].";
    std::vector<std::string> failures, unscored;
    ErrorKind kind = ErrorKind::data;
    for (size_t i = 0; i < samples.size(); ++i) {
      const Score& score = scored[i].parts[k];
      if (score.value) continue;
      unscored.push_back(samples[i].place + ": " + score.reason);
      if (!score.failure) continue;
      if (failures.empty()) kind = *score.failure;
      failures.push_back(unscored.back());
    }
    if (!failures.empty() && rewards[k].on_error == OnRewardError::stop)
      refuse(rewards[k], failures, kind,
             "fix them, or set " + key +
                 "on_error: unscored to leave such completions out, and only count them");
    if (static_cast<int64_t>(unscored.size()) > most_unscored(rewards[k], samples.size())) {
      unscored.insert(unscored.begin(), format_count(static_cast<int64_t>(unscored.size())) + " of " +
                                            format_count(static_cast<int64_t>(samples.size())) +
                                            " completions have no score, expected at most " +
                                            format_number(100 * rewards[k].max_unscored) + " %");
      refuse(rewards[k], unscored, kind, "raise " + key + "max_unscored if so many are expected");
    }
  }
}

}  // namespace forge
