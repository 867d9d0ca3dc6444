// tags, length, repetition, overlong: the shape of a completion.
#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "core/lib/io/column.h"
#include "core/job/names.h"
#include "core/learn/reward/verifiers.h"
#include "core/lib/base/text.h"
#include "core/lib/schema/text_form.h"

namespace forge {
namespace {

size_t count_of(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

struct TagLook {
  int64_t held = 0, conditions = 0;
  std::string missed;  // the first condition that does not hold
  void check(bool holds, const std::string& otherwise) {
    ++conditions;
    held += holds;
    if (!holds && missed.empty()) missed = otherwise;
  }
};

// Checks, for each tag, that it opens once and closes once after that; and for all, that they
// follow each other in this order with only blanks outside of them.
TagLook look_at_tags(std::string_view text, const std::vector<std::string>& tags) {
  TagLook look;
  bool in_order = true, nothing_outside = true;
  size_t end = 0;
  for (const std::string& tag : tags) {
    const std::string opening = "<" + tag + ">", closing = "</" + tag + ">";
    const size_t open = text.find(opening), close = text.find(closing);
    const bool opens = count_of(text, opening) == 1;
    const bool closes = opens && count_of(text, closing) == 1 && close > open;
    look.check(opens, opening + (open == text.npos ? " is missing" : " appears twice"));
    look.check(closes, closing + (close == text.npos ? " is missing" : " appears twice or before " + opening));
    in_order &= closes && open >= end;
    nothing_outside &= in_order && trim(text.substr(end, open - end)).empty();
    if (in_order) end = close + closing.size();
  }
  look.check(in_order, "the tags do not follow each other in order");
  look.check(nothing_outside && trim(text.substr(end)).empty(), "there is text outside of the tags");
  return look;
}

// Returns the completion's length. Throws CannotJudge if its tokens were not counted.
double length_of(const RewardSample& sample, LengthUnit unit) {
  if (unit == LengthUnit::words) return static_cast<double>(words_of(sample.completion).size());
  if (unit == LengthUnit::characters)
    return static_cast<double>(count_characters(sample.completion));
  if (!sample.tokens)
    throw CannotJudge{"the completion's tokens were not counted", ErrorKind::environment};
  return static_cast<double>(*sample.tokens);
}

}  // namespace

Verifier verifier_of(const TagsReward& reward, const std::string&) {
  return [tags = reward.tags, strict = reward.strict](const RewardSample& sample) {
    const TagLook look = look_at_tags(sample.completion, tags);
    const double share = static_cast<double>(look.held) / static_cast<double>(look.conditions);
    return Score::of(strict ? std::floor(share) : share, std::to_string(look.held) + " of " +
                                                             std::to_string(look.conditions) + " conditions" +
                                                             (look.missed.empty() ? "" : ": " + look.missed));
  };
}

Verifier verifier_of(const LengthReward& reward, const std::string&) {
  return [reward](const RewardSample& sample) {
    const double length = length_of(sample, reward.unit);
    std::optional<double> low, high;
    if (reward.min) low = static_cast<double>(*reward.min);
    if (reward.max) high = static_cast<double>(*reward.max);
    if (reward.target) {
      const Json* wanted = find_column(*sample.row, *reward.target);
      if (!wanted || !wanted->is_number() || wanted->get<double>() < 0)
        return Score::failed(*reward.target + " of the row is not a length");
      low = high = wanted->get<double>();
    }
    const double outside = low && length < *low     ? *low - length
                           : high && length > *high ? length - *high
                                                    : 0;
    const double score = outside == 0 ? 1 : reward.slack > 0 ? std::max(0.0, 1 - outside / reward.slack) : 0;
    return Score::of(score, format_number(length) + " " + name_of(reward.unit));
  };
}

// Scores (1 − distinct / all n-grams) · −penalty; texts shorter than n give 0. Like TRL and
// open-r1, after Yeo et al., "Demystifying Long Chain-of-Thought Reasoning" (2502.03373), appendix
// C.2.
Verifier verifier_of(const RepetitionReward& reward, const std::string&) {
  return [n = static_cast<size_t>(reward.ngram), penalty = reward.penalty](const RewardSample& sample) {
    // Words are joined by one blank, so that an n-gram is a part of one text.
    std::string text;
    std::vector<size_t> begins;
    const std::string folded = composed(sample.completion, true);
    for (const std::string_view word : words_of(folded))
      begins.push_back(text.size()), text.append(word) += ' ';
    if (begins.size() < n) return Score::of(0, "fewer than " + std::to_string(n) + " words");
    begins.push_back(text.size());
    std::unordered_set<std::string_view> distinct;
    const size_t count = begins.size() - n;
    for (size_t i = 0; i < count; ++i)
      distinct.insert(std::string_view(text).substr(begins[i], begins[i + n] - begins[i]));
    const double repeated = 1 - static_cast<double>(distinct.size()) / static_cast<double>(count);
    return Score::of(repeated == 0 ? 0 : -penalty * repeated,
                     std::to_string(distinct.size()) + " of " + std::to_string(count) + " are distinct");
  };
}

// Scores min(0, (max − buffer − n) / buffer) · penalty, at least −penalty: the soft punishment of
// DAPO (2503.14476, eq. 13).
Verifier verifier_of(const OverlongReward& reward, const std::string&) {
  return [max = static_cast<double>(*reward.max), buffer = static_cast<double>(reward.buffer),
          penalty = reward.penalty](const RewardSample& sample) {
    const double length = length_of(sample, LengthUnit::tokens);
    const double over = std::clamp((max - buffer - length) / buffer, -1.0, 0.0);
    return Score::of(over == 0 ? 0 : penalty * over,
                     format_number(length) + " of " + format_number(max) + " tokens");
  };
}

}  // namespace forge
