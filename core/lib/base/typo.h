#pragma once
// Misspelt names. `nearest` (text.h) always finds a candidate; here the guess must be likely.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace forge {

// Returns the edit distance: insert, delete, replace and swap of neighbours cost one each (optimal
// string alignment).
size_t edit_distance(std::string_view a, std::string_view b);

// Returns the candidate of the fewest edits, at most `allowed`, that fits: a function of the word
// and it in lower case, and of the edits between them. Empty if none does.
using FitsWord = std::function<bool(std::string_view word, std::string_view other, size_t edits)>;
std::string closest(std::string_view word, const std::vector<std::string>& candidates, size_t allowed,
                    const FitsWord& fits);

// Returns the candidate of which `word` is probably a misspelling: one edit, or two from eight
// letters on, at most one in a part between underscores shorter than five. Never another number
// (qwen3 is not qwen2) and never another short word (min_length is not max_length). Empty
// otherwise.
std::string likely_meant(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace forge
