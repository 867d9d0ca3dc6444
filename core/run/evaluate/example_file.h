#pragma once
// Examples that a command makes itself: windows over long texts, and the file of examples in the
// format that the engine reads.
#include <cstdint>
#include <string>
#include <vector>

#include "core/data/dataset.h"

namespace forge {

// A part of a text that is longer than the model's context.
struct Window {
  int64_t begin = 0, end = 0;  // tokens that the model sees
  int64_t first = 0;           // those from here on are predicted; the text's first token never is
};

// Returns overlapping windows of at most `window` tokens that begin `stride` tokens apart,
// 1 ≤ stride ≤ window; `tokens` ≥ 2. Every token is predicted once, with as many tokens before it
// as the window leaves (the recipe of transformers, "Perplexity of fixed-length models").
std::vector<Window> text_windows(int64_t tokens, int64_t window, int64_t stride);

struct MadeExample {
  std::vector<int32_t> ids;
  int64_t first = 1;  // ids from here on are predicted; at least 1
  int64_t line = 1;   // of `source`
};

// Writes `path` as a whole. Throws Error(environment).
DataSet write_examples(const std::string& path, const std::string& source,
                       const std::vector<MadeExample>& examples);

}  // namespace forge
