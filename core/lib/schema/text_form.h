#pragma once
// The forms in which texts are compared: Unicode's composed form, and words.
#include <string>
#include <string_view>
#include <vector>

namespace forge {

// Returns the text in NFC; with `casefold` also after Unicode's case folding. `text` must be valid
// UTF-8.
std::string composed(std::string_view text, bool casefold);

// Returns the words of a text: the parts between blanks (Unicode's White_Space).
std::vector<std::string_view> words_of(std::string_view text);

}  // namespace forge
