#pragma once
// Groups of a micro-batch's texts that attention pads to one length and computes together. Sources
// and answers of an encoder-decoder are short and many, and calling for each text by itself takes
// longer than the arithmetic.
#include <cstdint>
#include <vector>

namespace forge {

// A text's source and its answer, in tokens.
struct TextLengths {
  int64_t source = 0, answer = 0;
};

struct TextGroup {
  std::vector<size_t> texts;
  TextLengths longest;  // what they are padded to
};

// Most slots, padding included, that a group may have for one token of its texts, on either side.
constexpr double kMostPadding = 1.5;

// Puts every text into one group. Shorter sources come first; a group grows while neither side has
// more than kMostPadding slots a token.
std::vector<TextGroup> text_groups(const std::vector<TextLengths>& texts);

}  // namespace forge
