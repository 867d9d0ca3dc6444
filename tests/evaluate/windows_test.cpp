#include "core/run/evaluate/example_file.h"
#include "tests/test.h"

using namespace forge;

namespace {

// Returns the windows of the loop on transformers' page on the perplexity of fixed-length models,
// by the tokens that it predicts.
std::vector<Window> recipe(int64_t tokens, int64_t window, int64_t stride) {
  std::vector<Window> windows;
  int64_t previous_end = 0;
  for (int64_t begin = 0; begin < tokens; begin += stride) {
    const int64_t end = std::min(begin + window, tokens);
    const int64_t first =
        std::max(end - (end - previous_end), begin + 1);  // labels are shifted inside the window
    if (first < end) windows.push_back({begin, end, first});
    previous_end = end;
    if (end == tokens) break;
  }
  return windows;
}

}  // namespace

TEST_CASE("windows are those of the recipe, and predict every token once") {
  for (const int64_t tokens : {2, 3, 7, 8, 9, 64, 65, 1000})
    for (const int64_t window : {2, 5, 8, 64, 2000})
      for (int64_t stride = 1; stride <= window; stride = stride * 2 + 1) {
        INFO(tokens << " tokens, window " << window << ", stride " << stride);
        const std::vector<Window> got = text_windows(tokens, window, stride),
                                  want = recipe(tokens, window, stride);
        REQUIRE(got.size() == want.size());
        std::vector<int> predicted(static_cast<size_t>(tokens), 0);
        for (size_t i = 0; i < got.size(); ++i) {
          CHECK(
              (got[i].begin == want[i].begin && got[i].end == want[i].end && got[i].first == want[i].first));
          CHECK((got[i].end - got[i].begin <= window && got[i].first > got[i].begin));
          for (int64_t t = got[i].first; t < got[i].end; ++t) ++predicted[static_cast<size_t>(t)];
        }
        for (int64_t t = 0; t < tokens; ++t) {
          const bool first_of_window = t == 0 || (stride == window && t % window == 0);
          CHECK(predicted[static_cast<size_t>(t)] == !first_of_window);
        }
      }
}

TEST_CASE("made examples are what the engine reads") {
  const TemporaryFolder folder;
  const DataSet data =
      write_examples(folder.path("x.tokens"), "rows.jsonl", {{{5, 6, 7}, 1, 3}, {{8, 9}, 2, 4}});
  REQUIRE(data.size() == 2);
  CHECK(data.example(0).supervised == std::vector<uint8_t>{0, 1, 1});
  CHECK(data.example(1).supervised == std::vector<uint8_t>{0, 0});
  CHECK(data.source_line(1) == 4);
  CHECK(data.total_supervised_tokens() == 2);
}
