#pragma once
// The regular expressions of a job's rewards: PCRE2's syntax, Unicode classes, bounded in steps and
// time.
//
//   TextPattern pattern("answer: (\\d+)", "rewards[0].pattern");
//   pattern.search("the answer: 42")   // {"answer: 42", "42"}
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/lib/base/error.h"

namespace forge {

// Thrown when a pattern needs too many steps for a text. The result is then unknown, which is not
// "no match".
class PatternGaveUp : public Error {
 public:
  explicit PatternGaveUp(const std::string& message) : Error(ErrorKind::data, message) {}
};

// A match: its text, then those of its groups (nothing for a group that took no part). They point
// into the text.
using TextMatch = std::vector<std::optional<std::string_view>>;

class TextPattern {
 public:
  // Throws KeyError(job) at `key` when it does not compile.
  TextPattern(const std::string& pattern, const std::string& key);
  int groups() const { return groups_; }

  // Returns the first match. `text` must be valid UTF-8. All three functions throw PatternGaveUp.
  std::optional<TextMatch> search(std::string_view text) const;
  // Returns a match of the whole text.
  std::optional<TextMatch> full(std::string_view text) const;
  std::optional<TextMatch> last(std::string_view text) const;

 private:
  struct Code;
  std::shared_ptr<const Code> any_, whole_;
  int groups_ = 0;
};

}  // namespace forge
