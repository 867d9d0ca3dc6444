#pragma once
// Texts as they are compared: Unicode's composed form, and words.
#include <string>
#include <string_view>
#include <vector>

namespace forge {

// NFC; with `casefold` also Unicode's case folding. `text` must be valid UTF-8.
std::string composed(std::string_view text, bool casefold);

// What stands between blanks (Unicode's White_Space).
std::vector<std::string_view> words_of(std::string_view text);
// The number of code points.
int64_t count_characters(std::string_view text);

}  // namespace forge
