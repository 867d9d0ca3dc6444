// exact, contains, regex: completions as texts.

#include "core/learn/reward/answer.h"
#include "core/learn/reward/verifiers.h"
#include "core/lib/base/text.h"
#include "core/lib/schema/text_form.h"

namespace forge {
namespace {

std::string form_of(std::string_view text, const ExactReward& reward) {
  return composed(reward.strip ? trim(text) : text, reward.casefold);
}

std::string share_text(size_t part, size_t whole, const std::string& what) {
  return std::to_string(part) + " of " + std::to_string(whole) + " " + what;
}

}  // namespace

Verifier verifier_of(const ExactReward& reward, const std::string& key) {
  const std::string how = reward.extract == "auto" ? "whole" : reward.extract;
  return [reward, extraction = Extraction(how, key + ".extract")](const RewardSample& sample) {
    const std::vector<std::string> answers =
        reference_answers(*sample.row, reward.answer.value_or("answer"));
    const std::optional<std::string_view> part = extraction.part(sample.completion);
    if (!part) return Score::of(0, "no answer at \"" + reward.extract + "\"");
    const std::string answer = form_of(*part, reward);
    for (const std::string& wanted : answers)
      if (form_of(wanted, reward) == answer) return Score::of(1, in_quotes(*part) + " is the answer");
    return Score::of(0, in_quotes(*part) + " is not " + in_quotes(answers[0]));
  };
}

Verifier verifier_of(const ContainsReward& reward, const std::string&) {
  std::vector<std::string> all, none;
  for (const std::string& text : reward.all) all.push_back(composed(text, reward.casefold));
  for (const std::string& text : reward.none) none.push_back(composed(text, reward.casefold));
  return [all, none, casefold = reward.casefold](const RewardSample& sample) {
    const std::string text = composed(sample.completion, casefold);
    size_t met = 0;
    std::string missed;
    for (const auto& [parts, wanted] : {std::pair(&all, true), std::pair(&none, false)})
      for (const std::string& part : *parts) {
        const bool holds = (text.find(part) != text.npos) == wanted;
        met += holds;
        if (!holds && missed.empty())
          missed = ": " + in_quotes(part) + (wanted ? " is missing" : " is there");
      }
    const size_t count = all.size() + none.size();
    return Score::of(static_cast<double>(met) / static_cast<double>(count),
                     share_text(met, count, "conditions") + missed);
  };
}

Verifier verifier_of(const RegexReward& reward, const std::string& key) {
  TextPattern pattern(*reward.pattern, key + ".pattern");
  return [reward, pattern = std::move(pattern)](const RewardSample& sample) {
    const std::optional<TextMatch> match = reward.match == RegexMatch::full
                                               ? pattern.full(sample.completion)
                                               : pattern.search(sample.completion);
    if (!reward.answer)
      return match ? Score::of(1, "matches " + in_quotes(match->at(0).value_or("")))
                   : Score::of(0, "does not match");
    const std::vector<std::string> answers = reference_answers(*sample.row, *reward.answer);
    if (answers.size() > static_cast<size_t>(pattern.groups()))
      return Score::failed(*reward.answer + " has " + std::to_string(answers.size()) +
                           " values and the pattern " + std::to_string(pattern.groups()) + " groups");
    if (!match) return Score::of(0, "does not match");
    size_t equal = 0;
    for (size_t i = 0; i < answers.size(); ++i) {
      const bool took_part = i + 1 < match->size() && match->at(i + 1);
      equal += took_part && composed(trim(*match->at(i + 1)), false) == composed(trim(answers[i]), false);
    }
    return Score::of(static_cast<double>(equal) / static_cast<double>(answers.size()),
                     share_text(equal, answers.size(), "groups equal the answer"));
  };
}

}  // namespace forge
