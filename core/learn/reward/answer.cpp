#include "core/learn/reward/answer.h"

#include <algorithm>

#include "core/learn/reward/score.h"
#include "core/lib/io/column.h"
#include "core/lib/base/text.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge {
namespace {

// Returns, at the offset of each opening brace, the offset after its closing one; npos where there
// is none. It finds all in one pass: a search for each brace would take quadratic time for a text
// of opening braces.
std::vector<size_t> closing_braces(std::string_view text) {
  std::vector<size_t> closing(text.size(), text.npos), open;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;  // \{ and \} are characters
    } else if (text[i] == '{') {
      open.push_back(i);
    } else if (text[i] == '}' && !open.empty()) {
      closing[open.back()] = i + 1;
      open.pop_back();
    }
  }
  return closing;
}

std::optional<std::string_view> boxed_at(std::string_view text, const std::vector<size_t>& closing, size_t behind) {
  size_t open = behind;
  while (open < text.size() && text[open] == ' ') ++open;
  if (open < text.size() && text[open] == '{') {
    const size_t end = closing[open];
    if (end == text.npos) return std::nullopt;
    return text.substr(open + 1, end - open - 2);
  }
  if (open == behind) return std::nullopt;  // \boxedX is another command
  return text.substr(open, text.find_first_of(" $\n", open) - open);
}

std::optional<std::string_view> after(std::string_view text, const std::string& mark) {
  const size_t at = text.rfind(mark);
  if (at == text.npos) return std::nullopt;
  const std::string_view rest = text.substr(at + mark.size());
  // The answer may begin on the next line.
  const size_t begin = rest.find_first_not_of(" \t\r\n:");
  if (begin == rest.npos) return std::string_view();
  return rest.substr(begin, rest.find('\n', begin) - begin);
}

std::optional<std::string_view> inside(std::string_view text, const std::string& tag) {
  const std::string open = "<" + tag + ">", close = "</" + tag + ">";
  const size_t begin = text.rfind(open);
  if (begin == text.npos) return std::nullopt;
  const size_t from = begin + open.size(), end = text.find(close, from);
  if (end == text.npos) return std::nullopt;
  return trim(text.substr(from, end - from));
}

std::optional<std::string> answer_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number() || value.is_boolean() ? std::optional(dump_json(value)) : std::nullopt;
}

}  // namespace

Extraction::Extraction(const std::string& how, const std::string& key) {
  const auto form = [&](const char* word, Kind kind) {
    if (!starts_with(how, word)) return;
    kind_ = kind;
    text_ = how.substr(std::string_view(word).size());
  };
  if (how == "whole") kind_ = Kind::whole;
  if (how == "last") kind_ = Kind::last;
  if (how == "boxed") kind_ = Kind::boxed;
  form("after ", Kind::after);
  form("tag ", Kind::tag);
  form("regex ", Kind::regex);
  if (kind_ == Kind::regex) pattern_.emplace(text_, key);
}

std::optional<std::string_view> Extraction::part(std::string_view completion) const {
  switch (kind_) {
    case Kind::boxed:
      return last_boxed(completion);
    case Kind::after:
      return after(completion, text_);
    case Kind::tag:
      return inside(completion, text_);
    case Kind::regex: {
      const std::optional<TextMatch> match = pattern_->last(completion);
      if (!match) return std::nullopt;
      return match->size() > 1 ? match->at(1) : match->at(0);
    }
    case Kind::automatic:
    case Kind::whole:
    case Kind::last:
      break;
  }
  return completion;
}

std::optional<std::string_view> last_boxed(std::string_view text) {
  constexpr std::string_view kBox = "box", kCommands[] = {"\\boxed", "\\fbox"};
  const std::vector<size_t> closing = text.find(kBox) == text.npos ? std::vector<size_t>{} : closing_braces(text);
  for (size_t at = text.rfind('\\'); at != text.npos; at = at == 0 ? text.npos : text.rfind('\\', at - 1))
    for (const std::string_view command : kCommands)
      if (text.substr(at).starts_with(command))
        if (std::optional<std::string_view> content = boxed_at(text, closing, at + command.size())) return content;
  return std::nullopt;
}

std::vector<std::string> reference_answers(const Json& row, const std::string& column) {
  const Json* value = find_column(row, column);
  if (!value || value->is_null()) {
    std::vector<std::string> names;
    for (const auto& item : row.items())
      if (item.key() != column) names.push_back(item.key());
    throw CannotJudge{"the row has no " + column + did_you_mean(column, names)};
  }
  std::vector<std::string> answers;
  for (const Json& item : value->is_array() ? *value : Json::array({*value})) {
    const std::optional<std::string> answer = answer_of(item);
    if (!answer)
      throw CannotJudge{column + " is " +
                        (value->is_array() ? "a list of other things than" : "an object, not") +
                        " texts or numbers"};
    answers.push_back(*answer);
  }
  if (answers.empty()) throw CannotJudge{column + " is an empty list"};
  return answers;
}

std::optional<Json> try_json(std::string_view text) {
  try {
    return parse_json(text, "", ErrorKind::data, {.wide_integers = true});
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string kept_info(std::string_view info) {
  constexpr size_t kMost = 4096;
  size_t end = std::min(info.size(), kMost);
  while (end < info.size() && (static_cast<unsigned char>(info[end]) & 0xc0) == 0x80) --end;  // between characters
  return std::string(info.substr(0, end)) + (end < info.size() ? "…" : "");
}

std::string in_quotes(std::string_view text, size_t limit) {
  return "\"" + shortened(text, limit) + "\"";
}

std::string shortened(std::string_view text, size_t limit) {
  text = trim(text);
  size_t end = 0;
  for (size_t count = 0; end < text.size() && count < limit; ++count) text::next_char(text, end);
  std::string shown(text.substr(0, end));
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return shown + (end < text.size() ? "…" : "");
}

}  // namespace forge
