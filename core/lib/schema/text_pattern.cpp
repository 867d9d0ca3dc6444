#include "core/lib/schema/text_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/lib/base/key_error.h"
#include "core/lib/text/bounded_match.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge {

struct TextPattern::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

namespace {

pcre2_code* compile(const std::string& pattern, const std::string& key, uint32_t more) {
  constexpr size_t kPatternBytes = 100'000;
  if (pattern.size() > kPatternBytes)
    throw KeyError(ErrorKind::job, key, "is longer than " + std::to_string(kPatternBytes) + " bytes");
  int error = 0;
  size_t offset = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<const unsigned char*>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT | more, &error,
                    &offset, nullptr);
  if (!code)
    throw KeyError(ErrorKind::job, key,
                   "\"" + pattern + "\" is not a regular expression: " + text::pcre_message(error) +
                       " at byte " + std::to_string(offset),
                   "the syntax is PCRE2's; in YAML single quotes keep backslashes as they are");
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where it fails, the interpreter matches alike
  return code;
}

std::optional<TextMatch> match_of(const pcre2_code* code, std::string_view text, size_t from,
                                  text::MatchPatience& patience) {
  const text::BoundedMatch found = text::bounded_match(code, text, from, patience);
  if (!found.gave_up.empty())
    throw PatternGaveUp("the regular expression gave up on " + std::to_string(text.size()) +
                        " bytes: " + found.gave_up);
  if (found.ranges.empty()) return std::nullopt;
  TextMatch match;
  for (size_t i = 0; i + 1 < found.ranges.size(); i += 2) {
    const size_t begin = found.ranges[i], end = found.ranges[i + 1];
    if (begin == PCRE2_UNSET || end < begin)
      match.emplace_back();
    else
      match.emplace_back(text.substr(begin, end - begin));
  }
  return match;
}

}  // namespace

TextPattern::TextPattern(const std::string& pattern, const std::string& key) {
  auto any = std::make_shared<Code>(), whole = std::make_shared<Code>();
  any->code = compile(pattern, key, 0);
  whole->code = compile(pattern, key, PCRE2_ANCHORED | PCRE2_ENDANCHORED);
  uint32_t groups = 0;
  pcre2_pattern_info(any->code, PCRE2_INFO_CAPTURECOUNT, &groups);
  groups_ = static_cast<int>(groups);
  any_ = std::move(any);
  whole_ = std::move(whole);
}

std::optional<TextMatch> TextPattern::search(std::string_view text) const {
  text::MatchPatience patience;
  return match_of(any_->code, text, 0, patience);
}

std::optional<TextMatch> TextPattern::full(std::string_view text) const {
  text::MatchPatience patience;
  return match_of(whole_->code, text, 0, patience);
}

std::optional<TextMatch> TextPattern::last(std::string_view text) const {
  text::MatchPatience patience;
  std::optional<TextMatch> last;
  for (size_t at = 0; at <= text.size();) {
    std::optional<TextMatch> next = match_of(any_->code, text, at, patience);
    if (!next || !next->at(0)) break;
    const std::string_view whole = *next->at(0);
    const size_t begin = static_cast<size_t>(whole.data() - text.data()), end = begin + whole.size();
    last = std::move(next);
    // After an empty match the search continues at the next character.
    at = end > begin || end == text.size()
             ? end + (end == begin)
             : end + static_cast<size_t>(text::utf8_length(static_cast<unsigned char>(text[end])));
  }
  return last;
}

}  // namespace forge
