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

// The most that one group has of each, padding included; not necessarily the same group.
struct GroupSizes {
  int64_t sources = 0, answers = 0;  // slots of a group of several texts; 0 where each is by itself
  int64_t source_pairs = 0, answer_pairs = 0, cross_pairs = 0;  // of slots of one text

  bool operator==(const GroupSizes&) const = default;
};

// Most slots, padding included, that a group may have for one token of its texts, on either side.
constexpr double kMostPadding = 1.5;

// Most pairs of slots, of sources, answers or both, that a group of several texts may have: their
// scores are in memory at the same time.
constexpr int64_t kMostGroupPairs = 256 * 256;

// Puts every text into one group. Shorter sources come first; a group grows while neither side has
// more than kMostPadding slots a token, nor all texts more than kMostGroupPairs.
std::vector<TextGroup> text_groups(const std::vector<TextLengths>& texts);
// Raises `most` to what these groups have.
void take_most(GroupSizes& most, const std::vector<TextGroup>& groups);
// Returns a bound for texts of unknown lengths: so many tokens on each side, of which one text has
// at most `longest`.
GroupSizes bound_of_groups(int64_t tokens, int64_t longest);

}  // namespace forge
