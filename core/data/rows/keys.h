#pragma once
// Checks the keys of a row that its format does not read. Most say nothing to a model (ids,
// sources) and are counted; some would change what is learned, and are faults.
//
//   std::vector<std::string> unread;
//   check_keys(row, {.format = RowFormat::messages}, unread, faults);   // unread: "category", "messages[].time"
//
// Blank values (null, "", [] and {}) count as absent everywhere.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/rows/rows.h"

namespace forge {

// Statements of the job about a source's rows: whatever it then leaves out is left out on purpose.
enum class Stated {
  nothing,
  format,  // the shape: keys of other shapes, labels and scores are only counted
  fields,  // each field, by templates of its own: everything else is only counted
};

struct KeyRules {
  RowFormat format = RowFormat::automatic;
  Stated stated = Stated::nothing;
  bool has_template = true;
  std::function<bool(const std::string&)> template_reads = {};  // a key of a message
};

// Adds the names of keys that nothing reads to `unread`, a key of turns as "messages[].time", and a
// fault with RowFault::key for each that would change what is learned:
//   - system prompts, contexts, histories, tools and choices, images, videos and sounds
//   - masks of tokens and flags of turns that are not read
//   - unless the format is stated, what another shape would train on (`prompt` beside `text`, but nothing beside a whole
//     conversation), ranks, scores, weights and words for a bad answer, and scores of a pair that say the opposite
// Text that is also in what is read, or that is the row written out once more (Alpaca's `text`),
// changes nothing. `row` is one that the format converts.
void check_keys(const Json& row, const KeyRules& rules, std::vector<std::string>& unread, RowFaults& faults);

// True if a word is among these, between which there are blanks.
bool among(std::string_view words, std::string_view word);

// Returns a key without regard to its spelling: "SYSTEM", "System" and "system", "chat_history",
// "chatHistory" and "Chat-History".
std::string folded(std::string_view key);
// True if the key is of a picture, video or sound, or says where one is: `images`, `image_path`.
bool is_media_key(std::string_view key);

// Adds a fault if a question has the mark that stands for a picture, <image>.
void check_placeholders(const Row& row, RowFaults& faults);

// True if `part` has texts, and each of them is in a text of `whole`.
bool stands_in(const Json& part, const Json& whole);

}  // namespace forge
