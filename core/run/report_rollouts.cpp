#include "core/run/report_rollouts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/lib/base/format.h"
#include "core/run/event_fields.h"

namespace forge {
namespace {

constexpr const char* kPart = "reward ";  // before a reward's name
constexpr const char* kExplains = "explains ";

double number(const Json& object, const char* key) { return number_of(object, key, std::nan("")); }

Json object(const Json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_object() ? *found : Json::object();
}

// Appends a value to a curve. Every name has a value for every x, even if it appears later or
// disappears.
void put(std::map<std::string, std::vector<double>>& curves, size_t count, const std::string& name, double value) {
  std::vector<double>& values = curves[name];
  values.resize(count - 1, std::nan(""));
  values.push_back(value);
}

void put_rewards(std::map<std::string, std::vector<double>>& curves, size_t count, const Json& rewards) {
  for (const auto& [name, part] : rewards.items())
    put(curves, count, kPart + name, part.is_object() ? number(part, "mean") : std::nan(""));
}

// Returns the mean of the finite values of the first or last tenth, at least one value.
double end_of(const std::vector<double>& values, bool last) {
  std::vector<double> finite;
  for (const double value : values)
    if (std::isfinite(value)) finite.push_back(value);
  if (finite.empty()) return std::nan("");
  const auto count = static_cast<std::ptrdiff_t>(std::max<size_t>(1, finite.size() / 10));
  const auto begin = last ? finite.end() - count : finite.begin();
  return std::accumulate(begin, begin + count, 0.0) / static_cast<double>(count);
}

struct Change {
  double first = std::nan(""), last = std::nan("");
  double difference() const { return last - first; }
};
Change change_of(const std::map<std::string, std::vector<double>>& curves, const std::string& name) {
  const auto found = curves.find(name);
  if (found == curves.end()) return {};
  return {end_of(found->second, false), end_of(found->second, true)};
}

std::string from_to(const Change& change) { return fmt::format("{:.3g} to {:.3g}", change.first, change.last); }

}  // namespace

void RolloutCurves::add(const Json& event) {
  const std::string name = event.value("event", "");
  if (name == "rollout") {
    steps.push_back(number(event, "step"));
    for (const char* key : {"reward", "reward_std", "truncated_share", "entropy", "sampler_gap", "distinct_2", "sample_seconds",
                            "score_seconds", "train_seconds", "staleness", "wait_seconds", "correction", "correction_cut_share"})
      put(rollouts, steps.size(), key, number(event, key));
    put(rollouts, steps.size(), "tokens", number(object(event, "completion_tokens"), "mean"));
    put(rollouts, steps.size(), "flat_share", number(event, "flat_groups") / std::max(1.0, number(event, "groups")));
    put_rewards(rollouts, steps.size(), object(event, "rewards"));
    const Json rewards = object(event, "rewards");
    for (const auto& [name, part] : rewards.items())
      if (part.is_object() && part.contains("explains")) put(rollouts, steps.size(), kExplains + name, number(part, "explains"));
  }
  if (name == "eval" && event.contains("eval_reward")) {
    eval_steps.push_back(number(event, "step"));
    put(evaluations, eval_steps.size(), "reward", number(event, "eval_reward"));
    put(evaluations, eval_steps.size(), "tokens", number(object(event, "eval_completion_tokens"), "mean"));
    put(evaluations, eval_steps.size(), "distinct_2", number(event, "eval_distinct_2"));
    put_rewards(evaluations, eval_steps.size(), object(event, "eval_rewards"));
  }
  if (name == "step" && event.contains("ratio")) {
    train_steps.push_back(number(event, "step"));
    for (const char* key : {"clip_low_share", "clip_high_share", "dual_clip_share", "kl", "kl_old", "ratio"})
      put(training, train_steps.size(), key, number(event, key));
  }
}

std::vector<Chart> rollout_charts(const RolloutCurves& curves) {
  std::vector<Chart> charts;
  const auto chart = [&](const char* title, const char* label, std::vector<std::pair<const char*, const char*>> names,
                         const std::map<std::string, std::vector<double>>& from, const std::vector<double>& x) -> Chart& {
    Chart made{title, "step", label, {}};
    for (const auto& [name, key] : names)
      if (const auto found = from.find(key); found != from.end()) made.series.push_back({name, x, found->second});
    charts.push_back(std::move(made));
    return charts.back();
  };
  const auto add_held_out = [&](Chart& chart, const char* key) {
    if (!curves.eval_steps.empty())
      chart.series.push_back({"held out, greedy", curves.eval_steps, curves.evaluations.at(key)});
  };
  add_held_out(chart("Reward", "mean of a rollout", {{"training", "reward"}}, curves.rollouts, curves.steps), "reward");
  for (const auto& [from, x, title] :
       {std::tuple(&curves.rollouts, &curves.steps, "Rewards by name"),
        std::tuple(&curves.evaluations, &curves.eval_steps, "Rewards by name, held out")}) {
    Chart parts{title, "step", "mean score", {}};
    for (const auto& [name, values] : *from)
      if (name.starts_with(kPart)) parts.series.push_back({name.substr(std::string(kPart).size()), *x, values});
    if (!parts.series.empty()) charts.push_back(std::move(parts));
  }
  add_held_out(chart("Length", "tokens per completion", {{"training", "tokens"}}, curves.rollouts, curves.steps), "tokens");
  chart("Flat groups and cut completions", "share", {{"flat groups", "flat_share"}, {"cut", "truncated_share"}}, curves.rollouts, curves.steps);
  chart("Entropy", "nats per token", {{"policy", "entropy"}}, curves.rollouts, curves.steps);
  chart("Variety", "distinct pairs of tokens", {{"training", "distinct_2"}}, curves.rollouts, curves.steps);
  chart("Divergence", "nats per token", {{"from the base", "kl"}, {"from the policy that drew", "kl_old"}}, curves.training, curves.train_steps);
  chart("Clipped tokens", "share", {{"low", "clip_low_share"}, {"high", "clip_high_share"}, {"dual", "dual_clip_share"}}, curves.training, curves.train_steps);
  chart("Decoder against trainer", "nats per token", {{"mean difference", "sampler_gap"}}, curves.rollouts, curves.steps);
  const auto told = [&](const char* key) { return std::isfinite(change_of(curves.rollouts, key).first); };
  if (told("staleness")) chart("Staleness", "rollouts", {{"of the weights that drew", "staleness"}}, curves.rollouts, curves.steps);
  if (told("correction"))
    chart("Importance weights", "of a token", {{"mean", "correction"}, {"share cut off", "correction_cut_share"}}, curves.rollouts, curves.steps);
  chart("Seconds of a rollout", "s", {{"drawing", "sample_seconds"}, {"waiting for it", told("wait_seconds") ? "wait_seconds" : ""}, {"scoring", "score_seconds"}, {"first update", "train_seconds"}}, curves.rollouts, curves.steps);
  return charts;
}

std::vector<std::string> rollout_findings(const RolloutCurves& curves) {
  std::vector<std::string> found;
  if (curves.empty()) return found;
  const Change reward = change_of(curves.rollouts, "reward"), held_out = change_of(curves.evaluations, "reward");
  const double spread = std::max(1e-9, change_of(curves.rollouts, "reward_std").first);
  if (reward.difference() > 0.1 * spread && held_out.difference() < -0.02 * std::max(1e-9, std::abs(held_out.first)))
    found.push_back("The reward rose (" + from_to(reward) + ") while that of held-out prompts fell (" + from_to(held_out) +
                    "): what is learnt does not carry over.");
  for (const auto& [name, values] : curves.rollouts) {
    if (!name.starts_with(kPart)) continue;
    const Change part = change_of(curves.rollouts, name);
    if (reward.difference() > 0.1 * spread && part.difference() < -0.1 * std::max(1e-9, std::abs(part.first)))
      found.push_back("While the reward rose, \"" + name.substr(std::string(kPart).size()) + "\" fell: " + from_to(part) + ".");
  }
  for (const auto& [name, values] : curves.rollouts)
    if (name.starts_with(kExplains) && end_of(values, true) > 0.9)
      found.push_back(fmt::format("At the end \"{}\" explains {:.0f} % of how rewards differ: the others hardly count.",
                                  name.substr(std::string(kExplains).size()), 100 * end_of(values, true)));
  const Change length = change_of(curves.rollouts, "tokens");
  if (length.first > 0 && (length.last > 2 * length.first || length.last < length.first / 2))
    found.push_back("Completions changed in length: " + from_to(length) + " tokens.");
  if (const Change flat = change_of(curves.rollouts, "flat_share"); flat.last > 0.5)
    found.push_back(fmt::format("At the end {:.0f} % of the groups were flat: all their completions had the same reward, and nothing "
                                "was learnt from them.", 100 * flat.last));
  if (const Change cut = change_of(curves.rollouts, "truncated_share"); cut.last > 0.5)
    found.push_back(fmt::format("At the end {:.0f} % of the completions were cut at rollout.max_new_tokens.", 100 * cut.last));
  if (const Change variety = change_of(curves.rollouts, "distinct_2"); variety.last < variety.first / 2)
    found.push_back("Completions became alike: distinct pairs of tokens " + from_to(variety) + ".");
  return found;
}

}  // namespace forge
