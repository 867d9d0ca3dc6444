#pragma once
// Regular expressions of tokenizer files. They are written for Oniguruma and run on PCRE2 with its
// just-in-time compiler. Constructs that the two read differently are translated, or refused with a
// sentence. A pattern comes from outside: matching is bounded in steps, depth and time, and giving
// up is an Error, never a wrong split.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/lib/text/bounded_match.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {

class Regex {
 public:
  // Throws Error(environment) naming `where` and the fault of the pattern.
  Regex(const std::string& pattern, const std::string& where);
  // Returns a pattern that matches `literal` itself.
  static Regex literal(const std::string& literal, const std::string& where);

  // Calls on_match(begin, end) for the matches from left to right. `text` must be valid UTF-8.
  // Throws Error(data) if the pattern needs too many steps for one match, or too long for the whole
  // text.
  template <class OnMatch>
  void each_match(std::string_view text, OnMatch on_match) const {
    size_t at = 0;
    MatchPatience patience;
    for (size_t begin, end; find(text, at, patience, &begin, &end);) {
      // An empty match directly after the last one is skipped, as in Oniguruma's iterator.
      on_match(begin, end);
      at = end;
      if (end == begin)
        at += end < text.size() ? utf8_length(static_cast<unsigned char>(text[end])) : 1;
      if (at > text.size()) return;
    }
  }

 private:
  struct Code;
  bool find(std::string_view text, size_t from, MatchPatience& patience, size_t* begin, size_t* end) const;
  [[noreturn]] void give_up(std::string_view text, size_t from, const std::string& why) const;
  std::shared_ptr<const Code> code_;
};

// Returns the pattern in PCRE2's syntax. Refuses patterns as Regex's constructor does.
std::string translate_pattern(const std::string& pattern, const std::string& where);

}  // namespace forge::text
