// Tests the score of each verifier, and compares it with TRL 1.16 and open-r1 where they have the
// same reward.
#include "core/learn/reward/verifiers.h"

#include <chrono>

#include "core/job/names.h"
#include "core/learn/reward/answer.h"
#include "core/lib/base/text.h"
#include "tests/reward/samples.h"
#include "tests/test.h"

using namespace forge;

namespace {

// Returns "0.5", or "failed: …".
std::string verdict(const RewardConfig& reward, const RewardSample& sample) {
  const Score score = make_verifier(reward, "rewards[0]")(sample);
  if (score.value) return format_number(*score.value);
  return (score.failure ? "failed: " : "declined: ") + score.reason;
}
std::string verdict(const RewardConfig& reward, const std::string& completion,
                    const std::string& row = "{}") {
  return verdict(reward, sample_of(completion, row));
}

}  // namespace

TEST_CASE("exact compares composed texts") {
  RewardConfig reward = reward_of(RewardType::exact);
  CHECK(verdict(reward, " Paris\n", R"({"answer": "Paris"})") == "1");
  CHECK(verdict(reward, "paris", R"({"answer": "Paris"})") == "0");
  CHECK(verdict(reward, "cafe\xCC\x81", R"({"answer": "café"})") == "1");
  CHECK(verdict(reward, "", R"({"answer": "Paris"})") == "0");
  CHECK(verdict(reward, "4", R"({"answer": 4})") == "1");
  CHECK(verdict(reward, "true", R"({"answer": true})") == "1");
  CHECK(verdict(reward, "b", R"({"answer": ["a", "b"]})") == "1");
  reward.find<ExactReward>()->strip = false;
  CHECK(verdict(reward, " Paris", R"({"answer": "Paris"})") == "0");
  reward.find<Casefolding>()->casefold = true;
  CHECK(verdict(reward, "STRASSE", R"({"answer": "straße"})") == "1");
  reward.find<Extracting>()->extract = "tag answer";
  CHECK(verdict(reward, "<answer>x</answer><answer> Paris </answer>", R"({"answer": "paris"})") == "1");
  CHECK(verdict(reward, "<answer>Paris", R"({"answer": "paris"})") == "0");
  reward.find<Extracting>()->extract = "regex ^answer: (.*)$";
  CHECK(verdict(reward, "answer: Paris", R"({"answer": "paris"})") == "1");
}

TEST_CASE("a missing reference answer is a failure and never 0") {
  for (const RewardType type :
       {RewardType::exact, RewardType::numeric, RewardType::math, RewardType::choice}) {
    const RewardConfig reward = reward_of(type);
    CHECK(verdict(reward, "1", "{}") == "failed: the row has no answer");
    CHECK(verdict(reward, "1", R"({"anwser": "1"})") ==
          "failed: the row has no answer (did you mean \"anwser\"?)");
    CHECK(verdict(reward, "1", R"({"answer": null})") == "failed: the row has no answer");
    CHECK(verdict(reward, "1", R"({"answer": {}})") == "failed: answer is an object, not texts or numbers");
    CHECK(verdict(reward, "1", R"({"answer": []})") == "failed: answer is an empty list");
  }
  CHECK(verdict(reward_of(RewardType::numeric), "1", R"({"answer": "two"})") ==
        "failed: answer is \"two\", which is no number");
  CHECK(verdict(reward_of(RewardType::numeric), "1", R"({"answer": "1 or 2"})") ==
        "failed: answer is \"1 or 2\", which is no number");
  CHECK(verdict(reward_of(RewardType::choice), "A", R"({"answer": "Paris"})") ==
        "failed: answer is \"Paris\", which is none of A, B, C, D");
}

TEST_CASE("contains counts what is there and what is not") {
  RewardConfig reward = reward_of(RewardType::contains);
  reward.find<ContainsReward>()->all = {"alpha", "beta"};
  reward.find<ContainsReward>()->none = {"gamma"};
  CHECK(verdict(reward, "alpha beta") == "1");
  CHECK(verdict(reward, "alpha alpha") == format_number(2.0 / 3));
  CHECK(verdict(reward, "gamma") == "0");
  CHECK(verdict(reward, "Alpha beta") == format_number(2.0 / 3));
  reward.find<Casefolding>()->casefold = true;
  CHECK(verdict(reward, "ALPHA beta") == "1");
}

TEST_CASE("regex matches anywhere or whole, and compares groups") {
  RewardConfig reward = reward_of(RewardType::regex);
  reward.find<RegexReward>()->pattern = R"((\d+)-(\d+))";
  CHECK(verdict(reward, "from 3-4 on") == "1");
  CHECK(verdict(reward, "none") == "0");
  reward.find<RegexReward>()->match = RegexMatch::full;
  CHECK(verdict(reward, "from 3-4 on") == "0");
  CHECK(verdict(reward, "3-4") == "1");
  reward.find<WithAnswer>()->answer = "wanted";
  CHECK(verdict(reward, "3-4", R"({"wanted": ["3", "5"]})") == "0.5");
  CHECK(verdict(reward, "3-4", R"({"wanted": "3"})") == "1");
  CHECK(verdict(reward, "3-4", R"({"wanted": ["1", "2", "3"]})") ==
        "failed: wanted has 3 values and the pattern 2 groups");
  reward = reward_of(RewardType::regex);
  reward.find<RegexReward>()->pattern = "^<think>\\n(?s:.*?)\\n</think>$";
  CHECK(verdict(reward, "<think>\na\nb\n</think>") == "1");
  reward.find<RegexReward>()->pattern = "\\w+";
  reward.find<RegexReward>()->match = RegexMatch::full;
  CHECK(verdict(reward, "žluťoučký") == "1");
  reward.find<RegexReward>()->pattern = "(unclosed";
  CHECK(error_of([&] { make_verifier(reward, "rewards[0]"); }) ==
        "rewards[0].pattern: \"(unclosed\" is not a regular expression: missing closing parenthesis at byte 9");
}

TEST_CASE("a pattern without end is given up, not taken for no match") {
  RewardConfig reward = reward_of(RewardType::regex);
  reward.find<RegexReward>()->pattern = "(a+)+$";
  CHECK(starts_with(verdict(reward, std::string(1000, 'a') + "b"), "failed: the regular expression gave up"));
  reward.find<RegexReward>()->match = RegexMatch::full;
  reward.find<RegexReward>()->pattern = "(a|aa)+";
  CHECK(starts_with(verdict(reward, std::string(5000, 'a') + "b"), "failed: the regular expression gave up"));
}

TEST_CASE("numeric reads the answer where extract says") {
  RewardConfig reward = reward_of(RewardType::numeric);
  const char* row = R"({"answer": "Natalia sold 48/2 = <<48/2=24>>24 clips in May.\n#### 72"})";
  CHECK(verdict(reward, "so 48 + 24 = 72 clips", row) == "1");
  CHECK(verdict(reward, "72, I think; or 73", row) == "0");
  CHECK(verdict(reward, "\\boxed{72} and then 80", row) == "1");
  CHECK(verdict(reward, "\\boxed{71} or \\boxed{ 72\\text{ clips} }", row) == "1");
  CHECK(verdict(reward, "\\boxed{72", row) == "1");  // no box is closed: the last number
  CHECK(verdict(reward, "no idea", row) == "0");
  reward.find<Extracting>()->extract = "boxed";
  CHECK(verdict(reward, "72", row) == "0");
  CHECK(verdict(reward, "\\boxed{\\frac{144}{2}}", row) == "1");
  CHECK(verdict(reward, "\\boxed 72", row) == "1");
  CHECK(verdict(reward, "\\boxed{71, 72}", row) == "0");
  reward.find<Extracting>()->extract = "after ####";
  CHECK(verdict(reward, "1 2 3\n#### 72 clips\nthe end 5", row) == "1");
  CHECK(verdict(reward, "####\n72", row) == "1");
  CHECK(verdict(reward, "72", row) == "0");
  reward.find<Extracting>()->extract = "tag answer";
  CHECK(verdict(reward, "<answer>It is 72.</answer> 9", row) == "1");
  reward.find<Extracting>()->extract = "last";
  CHECK(verdict(reward, "\\boxed{72} and 80", row) == "0");
  reward.find<PartlyScored>()->partial = 0.1;
  CHECK(verdict(reward, "80", row) == "0.1");
  CHECK(verdict(reward, "none", row) == "0");
  reward.find<ValueReward>()->tolerance = 0.2;
  CHECK(verdict(reward, "80", row) == "1");
}

TEST_CASE("math reads the last formula, and falls back to the last number") {
  RewardConfig reward = reward_of(RewardType::math);
  const char* row = R"({"answer": "\\frac{1}{2}"})";
  CHECK(verdict(reward, "Thus \\boxed{0.5}.", row) == "1");
  CHECK(verdict(reward, "Thus $x = \\frac{2}{4}$.", row) == "1");
  CHECK(verdict(reward, "Thus \\[ \\frac{2}{4} \\]", row) == "1");
  CHECK(verdict(reward, "it is 0.5 indeed", row) == "1");
  CHECK(verdict(reward, "it costs $5 and then $7", R"({"answer": "7"})") == "1");
  CHECK(verdict(reward, "it is one half", row) == "0");
  CHECK(verdict(reward, "\\boxed{\\text{no idea here, sorry}}", row) == "0");
  CHECK(verdict(reward, "x", R"({"answer": "so \\boxed{x}"})") == "1");
  reward.find<Extracting>()->extract = "after answer is";
  CHECK(verdict(reward, "The answer is $\\frac12$, surely", row) == "1");
  CHECK(verdict(reward, "The answer is 0.5 metres long", row) == "1");
}

TEST_CASE("choice takes the letter that is said to be the answer") {
  RewardConfig reward = reward_of(RewardType::choice);
  const char* row = R"({"answer": "B"})";
  CHECK(verdict(reward, "B", row) == "1");
  CHECK(verdict(reward, "(B)", row) == "1");
  CHECK(verdict(reward, "The answer is (B) since A fails.", row) == "1");
  CHECK(verdict(reward, "Answer: **B**. Not C", row) == "1");
  CHECK(verdict(reward, "\\boxed{B}, not A", row) == "1");
  CHECK(verdict(reward, "\\boxed{\\text{B}}", row) == "1");
  CHECK(verdict(reward, "A or C", row) == "0");
  CHECK(verdict(reward, "Because", row) == "0");
  CHECK(verdict(reward, "b", row) == "0");
  CHECK(verdict(reward, "B", R"j({"answer": "(B)"})j") == "1");
  reward.find<ChoiceReward>()->choices = {"yes", "no"};
  CHECK(verdict(reward, "Yes, certainly", R"({"answer": "yes"})") == "1");
  CHECK(verdict(reward, "I do not know", R"({"answer": "no"})") == "0");
  reward.find<ChoiceReward>()->choices = {"a.b", "a*b"};
  CHECK(verdict(reward, "a.b", R"({"answer": "a.b"})") == "1");
  CHECK(verdict(reward, "axb", R"({"answer": "a.b"})") == "0");
}

TEST_CASE("tags once each, in order, nothing outside") {
  RewardConfig reward = reward_of(RewardType::tags);
  reward.find<TagsReward>()->tags = {"think", "answer"};
  CHECK(verdict(reward, "<think>a</think>\n<answer>b</answer>\n") == "1");
  CHECK(verdict(reward, "Hm. <think>a</think><answer>b</answer>") == format_number(5.0 / 6));
  CHECK(verdict(reward, "<think>a</think><answer>b</answer> so") == format_number(5.0 / 6));
  CHECK(verdict(reward, "<think>a</think>x<answer>b</answer>") == format_number(5.0 / 6));
  CHECK(verdict(reward, "<answer>b</answer><think>a</think>") == format_number(4.0 / 6));
  CHECK(verdict(reward, "<think>a</think>") == format_number(2.0 / 6));
  CHECK(verdict(reward, "<think>a<think>b</think><answer>c</answer>") == format_number(2.0 / 6));
  CHECK(verdict(reward, "</think><think><answer>c</answer>") == format_number(3.0 / 6));
  CHECK(verdict(reward, "") == "0");
  reward.find<TagsReward>()->strict = true;
  CHECK(verdict(reward, "<think>a</think><answer>b</answer>") == "1");
  CHECK(verdict(reward, "<think>a</think><answer>b</answer> so") == "0");
}

TEST_CASE("length falls over the slack") {
  RewardConfig reward = reward_of(RewardType::length);
  reward.find<LengthReward>()->unit = LengthUnit::words;
  reward.find<LengthReward>()->min = 2;
  reward.find<WithMost>()->max = 4;
  CHECK(verdict(reward, "one two") == "1");
  CHECK(verdict(reward, "a b c d") == "1");
  CHECK(verdict(reward, "a b c d e") == "0");
  reward.find<LengthReward>()->slack = 4;
  CHECK(verdict(reward, "a b c d e") == "0.75");
  CHECK(verdict(reward, "a") == "0.75");
  CHECK(verdict(reward, "") == "0.5");
  CHECK(verdict(reward, "a b c d e f g h i j") == "0");
  reward.find<LengthReward>()->unit = LengthUnit::characters;
  CHECK(verdict(reward, "žluť") == "1");
  reward.find<LengthReward>()->unit = LengthUnit::tokens;
  CHECK(verdict(reward, "a") == "failed: the completion's tokens were not counted");
  RewardSample sample = sample_of("a", R"({"n": 10})");
  sample.tokens = 8;
  reward.find<LengthReward>()->min = reward.find<WithMost>()->max = std::nullopt;
  reward.find<LengthReward>()->target = "n";
  CHECK(verdict(reward, sample) == "0.5");
  sample.row = std::make_shared<const Json>(Json{{"n", "ten"}});
  CHECK(verdict(reward, sample) == "failed: n of the row is not a length");
}

// Values of open_r1.rewards.get_repetition_penalty_reward(3, -1.0), which TRL's is a copy of.
TEST_CASE("repetition counts n-grams as TRL and open-r1") {
  RewardConfig reward = reward_of(RewardType::repetition);
  CHECK(verdict(reward, "") == "0");
  CHECK(verdict(reward, "one two") == "0");
  CHECK(verdict(reward, "this is a test sentence") == "0");
  CHECK(verdict(reward, "a a a a a") == format_number(-(1 - 1.0 / 3)));
  CHECK(verdict(reward, "This is a this IS a") == "-0.25");
  reward.find<Penalising>()->penalty = 0.5;
  CHECK(verdict(reward, "a a a a a") == format_number(-0.5 * (1 - 1.0 / 3)));
  reward.find<RepetitionReward>()->ngram = 1;
  CHECK(verdict(reward, "a b a b") == "-0.25");
}

// TRL's get_soft_overlong_punishment(max_completion_len=100, soft_punish_cache=20): 0 up to 80, (80
// − n)/20, −1 past 100.
TEST_CASE("overlong is DAPO's ramp") {
  RewardConfig reward = reward_of(RewardType::overlong);
  reward.find<WithMost>()->max = 100;
  reward.find<OverlongReward>()->buffer = 20;
  const auto at = [&](int64_t tokens) {
    RewardSample sample = sample_of("x");
    sample.tokens = tokens;
    return verdict(reward, sample);
  };
  CHECK(at(80) == "0");
  CHECK(at(90) == "-0.5");
  CHECK(at(100) == "-1");
  CHECK(at(110) == "-1");
  reward.find<Penalising>()->penalty = 2;
  CHECK(at(90) == "-1");
}

TEST_CASE("invalid UTF-8 and a megabyte are scored like any text") {
  RewardConfig reward = reward_of(RewardType::regex);
  reward.find<RegexReward>()->pattern = "ab";
  CHECK(verdict(reward,
                "\xFF\xFE"
                "ab\xC3") == "1");
  const std::string long_text = [] {
    std::string text;
    while (text.size() < (1 << 20)) text += "Lorem ipsum 12,345 \\frac{1}{2} {\"a\": [1, 2]} <b>x</b> ";
    return text;
  }();
  const auto begin = std::chrono::steady_clock::now();
  for (const RewardType type :
       {RewardType::exact, RewardType::contains, RewardType::regex, RewardType::numeric, RewardType::math,
        RewardType::choice, RewardType::tags, RewardType::length, RewardType::repetition}) {
    RewardConfig each = reward_of(type);
    if (auto* contains = each.find<ContainsReward>()) contains->all = {"nowhere"};
    if (auto* regex = each.find<RegexReward>()) regex->pattern = "nowhere$";
    if (auto* tags = each.find<TagsReward>()) tags->tags = {"b"};
    if (auto* length = each.find<LengthReward>()) length->unit = LengthUnit::characters, length->max = 10;
    INFO(name_of(type));
    CHECK_FALSE(starts_with(verdict(each, long_text, R"({"answer": "A"})"), "declined"));
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
}

TEST_CASE("the last closed box") {
  const auto boxed = [](std::string_view text) { return std::string(last_boxed(text).value_or("none")); };
  CHECK(boxed("\\boxed{a} \\boxed{b{c}d}") == "b{c}d");
  CHECK(boxed("\\boxed{a} \\boxed{b") == "a");
  CHECK(boxed("\\fbox{a}") == "a");
  CHECK(boxed("\\boxed{\\{1\\}}") == "\\{1\\}");
  CHECK(boxed("\\boxed 5$.") == "5");
  CHECK(boxed("\\boxed") == "none");
  CHECK(boxed("\\boxedX{1}") == "none");
  CHECK(boxed("") == "none");
}
