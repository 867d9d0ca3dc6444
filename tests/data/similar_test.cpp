#include "core/data/rows/similar.h"

#include <algorithm>
#include <set>
#include <string>

#include "core/lib/base/random.h"
#include "tests/test.h"

using namespace forge;

namespace {

std::string text_of(uint64_t seed, int64_t words) {
  std::string text;
  for (int64_t i = 0; i < words; ++i)
    text +=
        "w" + std::to_string(static_cast<int64_t>(uniform(seed, 1, static_cast<uint64_t>(i)) * 5000)) + " ";
  return text;
}

// Returns the text with one word in `every` replaced.
std::string edited(const std::string& text, size_t every) {
  std::string out;
  size_t word = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] == ' ' && ++word % every == 0) out += "other ";
  }
  return out;
}

// Returns the Jaccard similarity of the sets of three consecutive words, computed directly.
double jaccard(const std::string& a, const std::string& b) {
  auto shingles = [](const std::string& text) {
    std::vector<std::string> words{""};
    for (char c : text) {
      if (c != ' ')
        words.back() += c;
      else if (!words.back().empty())
        words.emplace_back();
    }
    if (words.back().empty()) words.pop_back();
    std::set<std::string> set;
    for (size_t i = 0; i + 3 <= words.size(); ++i)
      set.insert(words[i] + " " + words[i + 1] + " " + words[i + 2]);
    return set;
  };
  const auto x = shingles(a), y = shingles(b);
  std::vector<std::string> both;
  std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(both));
  return static_cast<double>(both.size()) / static_cast<double>(x.size() + y.size() - both.size());
}

}  // namespace

TEST_CASE("sketches estimate the Jaccard similarity of shingles") {
  for (size_t every : {5, 10, 20, 50, 100}) {
    double estimated = 0, exact = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      const std::string text = text_of(seed, 200), other = edited(text, every);
      estimated += similarity(sketch_of(text), sketch_of(other)) / 40;
      exact += jaccard(text, other) / 40;
    }
    CAPTURE(every);
    CHECK(estimated == Approx(exact).margin(0.05));
  }
}

TEST_CASE("near duplicates are found among many texts, and texts that differ are not paired") {
  std::vector<Sketch> sketches;
  for (uint64_t seed = 0; seed < 2000; ++seed) sketches.push_back(sketch_of(text_of(seed, 60)));
  for (uint64_t seed = 0; seed < 50; ++seed) sketches.push_back(sketch_of(edited(text_of(seed * 7, 60), 50)));
  const auto pairs = similar_pairs(sketches);
  CHECK(pairs.size() >= 48);  // 98 % in expectation, and these are more alike
  for (const SimilarPair& pair : pairs) CHECK(pair.earlier == (pair.later - 2000) * 7);
}

TEST_CASE("case, blanks and marks make no difference, short texts are not judged") {
  CHECK(sketch_of("The cat sat on the mat and looked at the moon all night") ==
        sketch_of("the CAT sat,  on the mat\nand looked at the moon: all night!"));
  const Sketch shortest = sketch_of("one two three");
  CHECK(similarity(shortest, shortest) == 0);
  CHECK(similar_pairs({shortest, shortest}).empty());
  // Characters are words where no blanks are written.
  const std::string chinese = "今天天气很好我们一起去公园散步吧明天也许会下雨";
  CHECK(similarity(sketch_of(chinese), sketch_of(chinese + "了")) > 0.7);
}
