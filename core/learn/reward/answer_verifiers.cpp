// numeric, math, choice: the value of an answer, however it is written.
#include <algorithm>

#include "core/learn/reward/answer.h"
#include "core/learn/reward/math_node.h"
#include "core/learn/reward/number.h"
#include "core/learn/reward/verifiers.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

// An answer that was read, and the text it was read from, which the reason shows.
template <class Value>
struct Read {
  std::optional<Value> value;
  std::string_view text;
};

// Returns the answer inside a reference that is a whole solution: GSM8K's
// "…\n#### 42", MATH's "… \boxed{42}".
std::optional<std::string_view> inside_solution(std::string_view reference) {
  if (const size_t at = reference.rfind("####"); at != reference.npos) {
    const std::string_view rest = trim(reference.substr(at + 4));
    return rest.substr(0, rest.find('\n'));
  }
  return last_boxed(reference);
}

std::string_view line_of(std::string_view text) { return text.substr(0, text.find('\n')); }

Read<Number> read_number(const Extraction& extraction, std::string_view completion) {
  if (extraction.kind() == Extraction::Kind::last || extraction.kind() == Extraction::Kind::automatic) {
    if (extraction.kind() == Extraction::Kind::automatic)
      if (const std::optional<std::string_view> boxed = last_boxed(completion))
        return {whole_number(*boxed), *boxed};
    return {last_number(completion), completion};
  }
  const std::optional<std::string_view> part = extraction.part(completion);
  if (!part) return {};
  if (std::optional<Number> whole = whole_number(*part)) return {whole, *part};
  if (extraction.kind() == Extraction::Kind::after) return {first_number(line_of(*part)), *part};
  if (extraction.kind() == Extraction::Kind::tag) return {last_number(*part), *part};
  return {std::nullopt, *part};
}

std::optional<Number> reference_number(const std::string& reference) {
  if (std::optional<Number> whole = whole_number(reference)) return whole;
  const std::optional<std::string_view> inside = inside_solution(reference);
  return inside ? whole_number(*inside) : std::nullopt;
}

// Returns the text between the last pair of math delimiters.
std::optional<std::string_view> last_formula(std::string_view text) {
  static const TextPattern kFormula(R"((?s)\$\$([^$]++)\$\$|\$([^$\n]++)\$|\\\[(.+?)\\\]|\\\((.+?)\\\))", "");
  const std::optional<TextMatch> match = kFormula.last(text);
  if (!match) return std::nullopt;
  for (size_t i = 1; i < match->size(); ++i)
    if (match->at(i)) return match->at(i);
  return std::nullopt;
}

std::optional<MathAnswer> math_of(const Number& number) {
  return MathAnswer{{MathNode::Kind::number, "", number.value, false, {}}, number.percent};
}

Read<MathAnswer> read_math(const Extraction& extraction, std::string_view completion) {
  const bool automatic = extraction.kind() == Extraction::Kind::automatic;
  if (automatic)
    if (const std::optional<std::string_view> boxed = last_boxed(completion))
      return {parse_math(*boxed), *boxed};
  if (automatic || extraction.kind() == Extraction::Kind::last) {
    if (const std::optional<std::string_view> formula = last_formula(completion))
      if (std::optional<MathAnswer> value = parse_math(*formula)) return {std::move(value), *formula};
    if (std::optional<MathAnswer> value = parse_math(completion);
        value && value->node.kind != MathNode::Kind::words)
      return {std::move(value), completion};
    const std::optional<Number> number = last_number(completion);
    return {number ? math_of(*number) : std::nullopt, completion};
  }
  const std::optional<std::string_view> part = extraction.part(completion);
  if (!part) return {};
  if (std::optional<MathAnswer> value = parse_math(*part)) return {std::move(value), *part};
  if (extraction.kind() == Extraction::Kind::after || extraction.kind() == Extraction::Kind::tag) {
    if (const std::optional<std::string_view> formula = last_formula(*part))
      return {parse_math(*formula), *formula};
    const std::optional<Number> number =
        extraction.kind() == Extraction::Kind::after ? first_number(line_of(*part)) : last_number(*part);
    if (number) return {math_of(*number), *part};
  }
  return {std::nullopt, *part};
}

std::optional<MathAnswer> reference_math(const std::string& reference) {
  if (const std::optional<std::string_view> inside = inside_solution(reference)) return parse_math(*inside);
  return parse_math(reference);
}

// The parts in which numeric and math differ. For both, a reference that cannot be read is a
// failure, and an answer that cannot be read is wrong.
template <class Value>
struct ValueKind {
  const char* what;  // "number"
  std::optional<Value> (*reference)(const std::string&);
  Read<Value> (*answer)(const Extraction&, std::string_view);
  bool (*same)(const Value&, const Value&, double);
};

template <class Value>
Verifier make_value(const ValueReward& reward, const std::string& key, const ValueKind<Value>& kind) {
  return
      [reward, kind, extraction = Extraction(reward.extract, key + ".extract")](const RewardSample& sample) {
        const std::string column = reward.answer.value_or("answer");
        const std::vector<std::string> references = reference_answers(*sample.row, column);
        std::vector<Value> wanted;
        for (const std::string& text : references) {
          std::optional<Value> value = kind.reference(text);
          if (!value) return Score::failed(column + " is " + in_quotes(text) + ", which is no " + kind.what);
          wanted.push_back(std::move(*value));
        }
        const Read<Value> answer = kind.answer(extraction, sample.completion);
        const std::string where = reward.extract == "auto" ? "" : " at \"" + reward.extract + "\"";
        if (!answer.text.data()) return Score::of(0, "no answer" + where);
        if (!answer.value)
          return Score::of(0, std::string("no ") + kind.what + where + " in " + in_quotes(answer.text));
        for (const Value& value : wanted)
          if (kind.same(value, *answer.value, reward.tolerance))
            return Score::of(1, "equals " + in_quotes(references[0]));
        return Score::of(reward.partial, "is not " + in_quotes(references[0]));
      };
}

// Returns a pattern for a letter or word of the choices that stands alone.
std::string choice_pattern(const std::vector<std::string>& choices) {
  std::string any;
  for (const std::string& choice : choices) {
    std::string literal;
    for (const char c : choice) {
      const bool plain =
          static_cast<unsigned char>(c) >= 0x80 || std::isalnum(static_cast<unsigned char>(c)) || c == ' ';
      literal += plain ? "" : "\\";
      literal += c;
    }
    // A choice of one letter must have the case that the list has: "a dog" chooses nothing.
    any += (any.empty() ? "" : "|") + (choice.size() == 1 ? literal : "(?i:" + literal + ")");
  }
  return R"((?<![\p{L}\p{N}_'’]))"
         "(" +
         any +
         ")"
         R"((?![\p{L}\p{N}_'’]))";
}

struct Choices {
  std::vector<std::string> all;
  TextPattern alone, said;

  explicit Choices(const ChoiceReward& reward, const std::string& key)
      : all(reward.choices),
        alone(choice_pattern(reward.choices), key + ".choices"),
        said(R"((?i:answer|choice|option)(?i:\s+is)?\s*:?\s*[(\[*$\\{a-z]{0,12}?)" +
                 choice_pattern(reward.choices),
             key + ".choices") {}

  // Returns the choice that a text consists of, with brackets, dots and the like around it.
  std::optional<std::string> whole(std::string_view text) const {
    const std::optional<TextMatch> match = alone.search(text);
    if (!match || !match->at(1)) return std::nullopt;
    const std::string_view choice = *match->at(1);
    for (std::string_view rest :
         {text.substr(0, static_cast<size_t>(choice.data() - text.data())),
          text.substr(static_cast<size_t>(choice.data() - text.data()) + choice.size())})
      for (const char c : std::string(rest))
        if (!std::isspace(static_cast<unsigned char>(c)) &&
            std::string_view("()[]{}.:*\"'$\\,").find(c) == std::string_view::npos &&
            !starts_with(trim(rest), "\\text"))
          return std::nullopt;
    return named(choice);
  }
  std::optional<std::string> last(std::string_view text) const {
    std::optional<TextMatch> match = said.last(text);
    if (!match) match = alone.last(text);
    if (!match || !match->at(1)) return std::nullopt;
    return named(*match->at(1));
  }
  // Returns the choice that the whole text is, or the first that stands alone in it, as in "B)
  // Paris" and "Paris is B".
  std::optional<std::string> in(std::string_view part) const {
    if (std::optional<std::string> choice = whole(part)) return choice;
    const std::optional<TextMatch> match = alone.search(part);
    return match && match->at(1) ? std::optional(named(*match->at(1))) : std::nullopt;
  }

 private:
  std::string named(std::string_view word) const {
    for (const std::string& choice : all)
      if (lower(choice) == lower(word)) return choice;
    return std::string(word);
  }
};

}  // namespace

Verifier verifier_of(const NumericReward& reward, const std::string& key) {
  return make_value<Number>(reward, key, {"number", reference_number, read_number, same_number});
}

Verifier verifier_of(const MathReward& reward, const std::string& key) {
  return make_value<MathAnswer>(reward, key, {"formula", reference_math, read_math, same_math});
}

Verifier verifier_of(const ChoiceReward& reward, const std::string& key) {
  return [reward, choices = Choices(reward, key),
          extraction = Extraction(reward.extract, key + ".extract")](const RewardSample& sample) {
    const std::string column = reward.answer.value_or("answer");
    const std::vector<std::string> references = reference_answers(*sample.row, column);
    std::vector<std::string> wanted;
    for (const std::string& text : references) {
      std::optional<std::string> choice = choices.whole(text);
      if (!choice)
        return Score::failed(column + " is " + in_quotes(text) + ", which is none of " +
                             join(choices.all, ", "));
      wanted.push_back(*choice);
    }
    const bool open = extraction.kind() == Extraction::Kind::automatic || extraction.kind() == Extraction::Kind::last;
    std::optional<std::string_view> part = extraction.part(sample.completion);
    if (extraction.kind() == Extraction::Kind::automatic)
      if (const std::optional<std::string_view> boxed = last_boxed(sample.completion)) part = boxed;
    const bool boxed = part && part->size() < sample.completion.size();
    if (!part) return Score::of(0, "no answer at \"" + reward.extract + "\"");
    const std::optional<std::string> choice = open && !boxed ? choices.last(*part) : choices.in(*part);
    if (!choice) return Score::of(0, "no choice in " + in_quotes(*part));
    const bool right = std::find(wanted.begin(), wanted.end(), *choice) != wanted.end();
    return Score::of(right ? 1 : reward.partial,
                     *choice + (right ? " is the answer" : " is not " + wanted[0]));
  };
}

}  // namespace forge
