#pragma once
// Finds near-duplicate texts in bounded memory.
//
//   sketches.push_back(sketch_of("the cat sat on the mat …"));
//   for (const SimilarPair& pair : similar_pairs(sketches)) …   // pair.later is like pair.earlier
//
// MinHash (Broder, "On the resemblance and containment of documents", 1997) over shingles of three
// words, with one permutation and a minimum in each of 32 bins (Li, Owen, Zhang, "One permutation
// hashing", 2012); candidates by locality-sensitive hashing in eight bands of four bins. Two texts
// with a Jaccard similarity of 0.8 meet in a band with 98 %.
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace forge {

using Sketch = std::array<uint32_t, 32>;
constexpr double kSimilar = 0.8;  // of equal bins, from which on a pair counts

// Returns the sketch of a text. All bins are empty for texts too short to judge (under eight
// shingles). Words are runs of letters and digits without regard to case; in scripts without blanks
// each character is one.
Sketch sketch_of(std::string_view text);
// Returns the share of bins in which two sketches agree.
double similarity(const Sketch& a, const Sketch& b);

struct SimilarPair {
  size_t earlier = 0, later = 0;
  double similarity = 0;
};
// Returns at most one pair for each later text: with the earliest candidate that is similar enough.
// Ascending by `later`. Memory: 8 bytes a text beside the sketches.
std::vector<SimilarPair> similar_pairs(const std::vector<Sketch>& sketches);

}  // namespace forge
