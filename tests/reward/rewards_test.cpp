// Tests several rewards together: weights, gates, shadows, groups, and completions without a score.
#include "core/learn/reward/rewards.h"

#include <atomic>
#include <cmath>

#include "core/lib/base/text.h"
#include "tests/reward/samples.h"
#include "tests/test.h"

using namespace forge;

namespace {

RewardConfig exact(const std::string& name, const std::string& column, double weight = 1) {
  RewardConfig reward = reward_of(RewardType::exact, name);
  reward.find<WithAnswer>()->answer = column;
  reward.weight = weight;
  return reward;
}

std::vector<RewardSample> samples_of(const std::vector<std::string>& completions,
                                     const std::string& row = R"({"a": "x", "b": "y"})") {
  std::vector<RewardSample> samples;
  for (const std::string& completion : completions) {
    samples.push_back(sample_of(completion, row));
    samples.back().id = static_cast<int64_t>(samples.size()) - 1;
    samples.back().place = "rows.jsonl:" + std::to_string(samples.size());
  }
  return samples;
}

std::string totals(const Job& job, const std::vector<RewardSample>& samples, bool keep_going = false) {
  std::string text;
  Rewards rewards(job);
  for (const ScoredSample& scored : rewards.score(samples, {.keep_going = keep_going}))
    text += (text.empty() ? "" : " | ") + (scored.total ? format_number(*scored.total) : scored.reason);
  return text;
}

}  // namespace

TEST_CASE("the total is the weighted sum") {
  Job job;
  job.rewards = {exact("first", "a", 2), exact("second", "b", -0.5)};
  CHECK(totals(job, samples_of({"x", "y", "z"})) == "2 | -0.5 | 0");
  job.reward_mix.clip = 1;
  CHECK(totals(job, samples_of({"x", "y", "z"})) == "1 | -0.5 | 0");
}

TEST_CASE("a weight of 0 measures and changes nothing") {
  Job job;
  job.rewards = {exact("first", "a"), exact("shadow", "missing", 0)};
  job.rewards[1].on_error = OnRewardError::unscored;
  job.rewards[1].max_unscored = 1;
  CHECK(totals(job, samples_of({"x", "y"})) == "1 | 0");
  Rewards rewards(job);
  const std::vector<ScoredSample> scored = rewards.score(samples_of({"x"}));
  CHECK_FALSE(scored[0].parts[1].value);
  CHECK(scored[0].parts[1].reason == "the row has no missing");
}

TEST_CASE("requires gates a reward by another") {
  Job job;
  RewardConfig format = reward_of(RewardType::tags, "format");
  format.find<TagsReward>()->tags = {"t"};
  format.find<TagsReward>()->strict = true;
  format.weight = 0;
  RewardConfig right = reward_of(RewardType::numeric, "right");
  right.needs = "format";
  job.rewards = {format, right};
  const char* row = R"({"answer": 4})";
  CHECK(totals(job, samples_of({"<t>4</t>", "4", "<t>5</t>"}, row)) == "1 | 0 | 0");
}

TEST_CASE("a failure stops the run or leaves the completion unscored, and is never 0") {
  Job job;
  job.rewards = {exact("first", "missing")};
  std::vector<RewardSample> samples = samples_of({"x", "y"});
  samples[0].row = std::make_shared<const Json>(Json{{"missing", "x"}});
  CHECK(error_of([&] { totals(job, samples); }) == "rows.jsonl:2: the row has no missing (reward first)");
  job.rewards[0].on_error = OnRewardError::unscored;
  CHECK(
      starts_with(error_of([&] { totals(job, samples); }),
                  "1 of 2 completions have no score, expected at most 10 % (reward first)\nrows.jsonl:2: "));
  job.rewards[0].max_unscored = 0.5;
  CHECK(totals(job, samples) == "1 | first: the row has no missing");
  job.rewards[0].on_error = OnRewardError::stop;
  CHECK(totals(job, samples, true) == "1 | first: the row has no missing");
}

TEST_CASE("at most twenty failures are named, and the others counted") {
  Job job;
  job.rewards = {exact("first", "missing")};
  const std::string text = error_of([&] { totals(job, samples_of(std::vector<std::string>(25, "x"))); });
  CHECK(std::count(text.begin(), text.end(), '\n') == 20);
  CHECK(text.ends_with("and 5 more"));
}

// (1, 0, 0, 0): mean 0.25, unbiased deviation 0.5; 0.75 / 0.5001 and −0.25 / 0.5001.
TEST_CASE("normalize_each standardises each reward in its group") {
  Job job;
  job.rewards = {exact("first", "a", 1), exact("rare", "b", 1)};
  job.reward_mix.normalize_each = true;
  std::vector<RewardSample> samples = samples_of({"x", "n", "n", "n", "x", "x", "x", "x"});
  for (size_t i = 4; i < 8; ++i) samples[i].group = 1;
  Rewards rewards(job);
  const std::vector<ScoredSample> scored = rewards.score(samples);
  CHECK(*scored[0].total == Approx(0.75 / 0.5001));
  CHECK(*scored[1].total == Approx(-0.25 / 0.5001));
  for (size_t i = 4; i < 8; ++i) CHECK(*scored[i].total == 0);  // a flat group
  // An unscored member leaves its group: (1, 0, 0) has mean 1/3 and deviation √(1/3).
  job.rewards[0].on_error = OnRewardError::unscored;
  job.rewards[0].max_unscored = 1;
  samples[3].row = std::make_shared<const Json>(Json{{"b", "y"}});
  Rewards again(job);
  const std::vector<ScoredSample> rest = again.score(samples);
  CHECK_FALSE(rest[3].total);
  CHECK(*rest[0].total == Approx((2.0 / 3) / (std::sqrt(1.0 / 3) + 1e-4)));
}

TEST_CASE("many samples on threads give the same as one by one") {
  Job job;
  RewardConfig numeric = reward_of(RewardType::numeric, "n");
  job.rewards = {numeric};
  std::vector<RewardSample> samples;
  for (int i = 0; i < 500; ++i) {
    samples.push_back(sample_of("so " + std::to_string(i % 7), R"({"answer": 3})"));
    samples.back().id = i;
  }
  Rewards rewards(job);
  const std::vector<ScoredSample> scored = rewards.score(samples);
  for (int i = 0; i < 500; ++i) CHECK(*scored[static_cast<size_t>(i)].total == (i % 7 == 3));
}

TEST_CASE("verifiers stop between two samples once nobody waits") {
  Job job;
  job.rewards = {reward_of(RewardType::numeric, "n")};
  const std::vector<RewardSample> samples(100, sample_of("so 3", R"({"answer": 3})"));
  std::atomic<int> asked = 0;
  Rewards rewards(job);
  CHECK_THROWS_AS(rewards.score(samples, {.stopped = [&] { return ++asked > 5; }}), ScoringStopped);
}

TEST_CASE("processes and verifiers stand side by side") {
  Job job;
  RewardConfig judge = reward_of(RewardType::command, "judge");
  judge.find<CommandReward>()->command = {"python3", std::string(FORGE_SOURCE_DIR) + "/tests/reward/hostile.py", "null"};
  judge.weight = 0.1;
  judge.max_unscored = 0.5;
  job.rewards = {exact("first", "a"), judge};
  CHECK(totals(job, samples_of({"x", "four"})) == format_number(1.1) + " | 0.4");
  CHECK(totals(job, samples_of({"x", "bad"})) == format_number(1.1) + " | judge: cannot judge");
}

TEST_CASE("every fault of patterns and schemas at once") {
  Job job;
  RewardConfig regex = reward_of(RewardType::regex, "r");
  regex.find<RegexReward>()->pattern = "(";
  RewardConfig pulled = exact("e", "a");
  pulled.find<Extracting>()->extract = "regex [";
  job.rewards = {regex, pulled};
  const std::string text = error_of([&] { Rewards rewards(job); });
  CHECK(text.find("rewards[0].pattern") != text.npos);
  CHECK(text.find("rewards[1].extract") != text.npos);
}
