#pragma once
// Finds the answer in a completion, and the reference answers in a row.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/lib/io/json.h"
#include "core/lib/schema/text_pattern.h"

namespace forge {

// The key `extract` of a reward: auto, whole, last, boxed, "after TEXT", "tag NAME", "regex
// PATTERN".
class Extraction {
 public:
  enum class Kind { automatic, whole, last, boxed, after, tag, regex };
  // Throws KeyError(job) at `key` for a pattern that does not compile.
  Extraction(const std::string& how, const std::string& key);

  Kind kind() const { return kind_; }
  // Returns the part of the completion that kind names, or nothing if it has no such part. whole,
  // last and automatic return all of it. Throws PatternGaveUp.
  std::optional<std::string_view> part(std::string_view completion) const;

 private:
  Kind kind_ = Kind::automatic;
  std::string text_;
  std::optional<TextPattern> pattern_;
};

// Returns the content of the last \boxed{…} or \fbox{…} whose brace is closed (or of `\boxed 5`, up
// to a blank or $).
std::optional<std::string_view> last_boxed(std::string_view text);

// Returns the reference answers of a row: the text, number or truth value at a column or dotted
// path; for a list all its items, any of which may be met. Throws CannotJudge when there is none.
std::vector<std::string> reference_answers(const Json& row, const std::string& column);

// Returns the JSON that a text is, with integers past 64 bits as doubles; nothing if it is none.
std::optional<Json> try_json(std::string_view text);

// Returns the beginning of a judge's remark that is kept with its score, at most 4 KiB: batches
// hold thousands.
std::string kept_info(std::string_view info);

// Return at most `limit` characters of a text, for messages.
std::string shortened(std::string_view text, size_t limit = 60);
std::string in_quotes(std::string_view text, size_t limit = 60);

}  // namespace forge
