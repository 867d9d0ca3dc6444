// Compares hard cases with published verifiers: goldens/answers.json (make_goldens.py), with the
// reasons where forge's answer differs.
#include <chrono>
#include <map>

#include "core/job/names.h"
#include "core/learn/reward/answer.h"
#include "tests/reward/samples.h"
#include "tests/test.h"

using namespace forge;

namespace {

// Maps reference and completion to the reason why forge's answer differs.
const std::map<std::pair<std::string, std::string>, std::string>& differences() {
  static const std::map<std::pair<std::string, std::string>, std::string> all{
      {{"(1,2)", "Thus \\boxed{\\{1,2\\}}."}, "a pair is no set"},
      {{"x<3", "Thus \\boxed{(-\\infty,3)}."}, "an inequality is not read as an interval"},
      {{"i^2", "Thus \\boxed{-1}."}, "i is the imaginary unit in powers too"},
      {{"72", "#### 72."}, "the point ends a sentence"},
      {{"72", "#### $72"}, "a currency sign"},
      {{"72", "####72"}, "no blank is needed"},
      {{"5", "#### 5.0"}, "numbers, not texts, are compared"},
      {{"72", "#### 71\n#### 72"}, "the last answer counts"},
  };
  return all;
}

}  // namespace

TEST_CASE("hard cases are judged as TRL's accuracy_reward and GSM8K judge them, but for the listed ones") {
  std::ifstream file(std::string(FORGE_SOURCE_DIR) + "/tests/reward/goldens/answers.json");
  const Json cases = Json::parse(file);
  CHECK(cases.size() > 80);
  for (const Json& one : cases) {
    RewardConfig reward = reward_of(*enum_of<RewardType>(one["type"].get<std::string>()));
    reward.find<Extracting>()->extract = one["extract"];
    const std::string reference = one["reference"], completion = one["completion"];
    const Score score =
        make_verifier(reward, "rewards[0]")(sample_of(completion, Json{{"answer", reference}}.dump()));
    INFO(one.dump() << "\n" << score.reason);
    const bool other = differences().contains({reference, completion});
    CHECK(score.value.has_value());
    if (score.value) CHECK((*score.value == 1) == (one["theirs"].get<bool>() != other));
  }
}

TEST_CASE("boxes that are opened again and again take their length, not its square") {
  std::string openings;
  for (int i = 0; i < 200'000; ++i) openings += "\\boxed{";
  const auto began = std::chrono::steady_clock::now();
  CHECK_FALSE(last_boxed(openings));
  CHECK(last_boxed(openings + "7}") == "7");
  CHECK(last_boxed("\\boxed{\\{1\\}}" + std::string(1'000'000, '\\')) == "\\{1\\}");
  CHECK(last_boxed("\\fbox{1} \\boxed{2") == "1");
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(5));
}
