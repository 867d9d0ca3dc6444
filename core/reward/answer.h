#pragma once
// Where the answer stands in a completion, and what a row says it should be.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/json.h"
#include "core/reward/text_pattern.h"

namespace forge {

// The key `extract` of a reward: auto, whole, last, boxed, "after TEXT", "tag NAME", "regex PATTERN".
class Extraction {
 public:
  enum class Kind { automatic, whole, last, boxed, after, tag, regex };
  // Throws KeyError(job) at `key` for a pattern that does not compile.
  Extraction(const std::string& how, const std::string& key);

  Kind kind() const { return kind_; }
  // The part of the completion that kind names; nothing when it is not there. whole, last and automatic give all of it.
  // Throws PatternGaveUp.
  std::optional<std::string_view> part(std::string_view completion) const;

 private:
  Kind kind_ = Kind::automatic;
  std::string text_;
  std::optional<TextPattern> pattern_;
};

// The content of the last \boxed{…} or \fbox{…} whose brace is closed (or `\boxed 5`, up to a blank or $).
std::optional<std::string_view> last_boxed(std::string_view text);

// The reference answers of a row: the text, number or truth value at a column or dotted path; of a list each of its
// items, any of which may be met. Empty with `problem` when there is none.
std::vector<std::string> reference_answers(const Json& row, const std::string& column, std::string& problem);

// The beginning of a judge's remark that is kept with its score, at most 4 KiB: batches hold thousands.
std::string kept_info(std::string_view info);

// At most `limit` characters, for messages.
std::string shortened(std::string_view text, size_t limit = 60);

}  // namespace forge
