#include "core/learn/rollout/rollout_metrics.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/learn/rollout/policy_step.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"

namespace forge {

// Returns mean, deviation (unbiased), least and most of numbers; null without any.
static Json spread_json(const std::vector<double>& values) {
  if (values.empty()) return {{"mean", nullptr}, {"std", nullptr}, {"min", nullptr}, {"max", nullptr}};
  const auto count = static_cast<double>(values.size());
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {{"mean", mean},
          {"std", values.size() > 1 ? std::sqrt(squares / (count - 1)) : 0},
          {"min", *std::min_element(values.begin(), values.end())},
          {"max", *std::max_element(values.begin(), values.end())}};
}

Json value_facts(const std::vector<Completion>& completions) {
  std::vector<double> values, returns, rest;
  for (const Completion& c : completions)
    for (size_t t = 0; t < c.returns.size(); ++t) {
      values.push_back(c.values[t]);
      returns.push_back(c.returns[t]);
      rest.push_back(returns.back() - values.back());
    }
  const Json all = spread_json(returns), left = spread_json(rest);
  Json explained = nullptr;
  if (all["std"].is_number() && all["std"].get<double>() > 0)
    explained = 1 - std::pow(left["std"].get<double>() / all["std"].get<double>(), 2);
  return {{"value_mean", spread_json(values)["mean"]}, {"return_mean", all["mean"]}, {"explained_variance", std::move(explained)}};
}

Json correction_facts(const std::vector<Completion>& completions, double limit) {
  std::vector<double> weights;
  for (const Completion& c : completions) {
    const std::vector<double> own = importance_weights(c, limit);
    weights.insert(weights.end(), own.begin(), own.end());
  }
  const auto cut = static_cast<double>(std::count(weights.begin(), weights.end(), limit));
  return {{"correction", spread_json(weights)["mean"]},
          {"correction_cut_share", weights.empty() ? Json(nullptr) : Json(cut / static_cast<double>(weights.size()))}};
}

Json turn_facts(const std::vector<Completion>& completions) {
  std::vector<double> turns, inserted;
  int64_t failures = 0;
  for (const Completion& c : completions) {
    turns.push_back(static_cast<double>(c.turns));
    inserted.push_back(static_cast<double>(c.ids.size() - c.sampler_logps.size()));
    failures += !c.failure.empty();
  }
  return {{"turns", spread_json(turns)}, {"inserted_tokens", spread_json(inserted)}, {"tool_failures", failures}};
}

Json advantage_facts(const std::vector<Completion>& completions) {
  std::vector<double> advantages;
  for (const Completion& c : completions) {
    if (!c.counts) continue;
    if (c.advantages.empty()) advantages.push_back(c.advantage);
    else advantages.insert(advantages.end(), c.advantages.begin(), c.advantages.end());
  }
  return spread_json(advantages);
}

double distinct_2(const std::vector<Completion>& completions) {
  std::set<std::pair<int32_t, int32_t>> seen;
  int64_t all = 0;
  for (const Completion& c : completions)
    for (size_t t = 1; t < c.ids.size(); ++t, ++all) seen.insert({c.ids[t - 1], c.ids[t]});
  return all == 0 ? 1 : static_cast<double>(seen.size()) / static_cast<double>(all);
}

// Returns the share of the total's variance that a reward explains: the square of their
// correlation. Null where either does not vary.
static Json explained_share(const std::vector<Completion>& completions, size_t reward) {
  double count = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  const auto each = [&](auto use) {
    for (const Completion& c : completions)
      if (c.reward && reward < c.parts.size() && c.parts[reward].score) use(*c.parts[reward].score, *c.reward);
  };
  each([&](double score, double total) { ++count, x += score, y += total; });
  each([&](double score, double total) {
    const double dx = score - x / count, dy = total - y / count;
    xx += dx * dx, yy += dy * dy, xy += dx * dy;
  });
  return xx > 0 && yy > 0 ? Json(xy * xy / (xx * yy)) : Json(nullptr);
}

Json rollout_facts(const std::vector<Completion>& completions, const std::vector<RewardConfig>& rewards) {
  std::vector<double> totals, lengths;
  int64_t unscored = 0, truncated = 0;
  for (const Completion& c : completions) {
    if (c.reward) totals.push_back(*c.reward);
    unscored += !c.reward;
    truncated += c.truncated;
    lengths.push_back(static_cast<double>(c.text_tokens));
  }
  const Json total = spread_json(totals);
  Json parts = Json::object();
  const auto trained = std::count_if(rewards.begin(), rewards.end(), [](const RewardConfig& reward) { return reward.weight != 0; });
  for (size_t k = 0; k < rewards.size(); ++k) {
    std::vector<double> scores;
    int64_t missing = 0;
    for (const Completion& c : completions) {
      if (k < c.parts.size() && c.parts[k].score) scores.push_back(*c.parts[k].score);
      else ++missing;
    }
    Json part = spread_json(scores);
    part["unscored"] = missing;
    if (trained > 1 && rewards[k].weight != 0) part["explains"] = explained_share(completions, k);
    parts[rewards[k].name] = std::move(part);
  }
  const auto count = static_cast<double>(std::max<size_t>(1, completions.size()));
  return {{"reward", total["mean"]},
          {"reward_std", total["std"]},
          {"rewards", std::move(parts)},
          {"unscored", unscored},
          {"completions", completions.size()},
          {"completion_tokens", spread_json(lengths)},
          {"truncated_share", static_cast<double>(truncated) / count},
          {"distinct_2", distinct_2(completions)}};
}

std::vector<std::string> rollout_warnings(const Rollout& rollout, const RolloutConfig& config) {
  std::vector<std::string> warnings;
  constexpr int64_t kHardlyAnything = 2;  // tokens
  int64_t truncated = 0, empty = 0, rewarded = 0;
  for (const Completion& c : rollout.completions) {
    truncated += c.truncated;
    empty += c.text_tokens <= kHardlyAnything && !c.truncated;
    rewarded += c.reward && *c.reward != 0;
  }
  const auto count = static_cast<int64_t>(rollout.completions.size());
  if (rollout.number == 0 && count > 0 && 2 * empty >= count)
    warnings.push_back(format_count(empty) + " of " + format_count(count) + " completions of the first rollout have at most " +
                       format_count(kHardlyAnything) + " tokens: does the model see its prompts as it expects them (data.prompt_as, data.template)?");
  if (rollout.number == 0 && rollout.groups > 0 && rollout.flat_groups == rollout.groups && rewarded == 0)
    warnings.push_back("every completion of the first rollout has reward 0: groups without a difference teach nothing");
  if (rollout.number == 0 && count > 0 && 2 * truncated >= count)
    warnings.push_back(format_count(truncated) + " of " + format_count(count) + " completions of the first rollout were cut at " +
                       format_count(config.max_new_tokens) + " tokens: rewards see unfinished texts (rollout.max_new_tokens)");
  return warnings;
}

Json rollout_samples(const std::string& run_folder, int64_t rollouts) {
  constexpr int64_t kShown = 4, kLargestFile = int64_t{1} << 30;
  Json samples = Json::array();
  std::set<int64_t> numbers;
  for (int64_t i = 0; i < kShown && rollouts > 0; ++i) numbers.insert(i * (rollouts - 1) / (kShown - 1));
  for (const int64_t number : numbers) {
    const std::string path = rollout_path(run_folder, number);
    if (!file_exists(path)) continue;
    std::vector<Json> lines;
    try {
      for (const std::string& line : split(read_file(path, kLargestFile, ErrorKind::environment), '\n'))
        if (!line.empty()) lines.push_back(parse_json(line, path, ErrorKind::environment));
      std::erase_if(lines, [](const Json& line) { return !line.at("reward").is_number(); });
      std::stable_sort(lines.begin(), lines.end(), [](const Json& a, const Json& b) { return a["reward"].get<double>() > b["reward"].get<double>(); });
      for (const auto& [which, at] : {std::pair("best", size_t{0}), std::pair("median", lines.size() / 2), std::pair("worst", lines.size() - 1)})
        if (!lines.empty())
          samples.push_back({{"rollout", number + 1}, {"which", which}, {"reward", lines.at(at)["reward"]},
                             {"prompt", lines[at].at("prompt_text")}, {"completion", lines[at].at("text")}});
    } catch (const std::exception&) {
    }
  }
  return samples;
}

}  // namespace forge
