#pragma once
// Overlapping windows over a text that is longer than the model's context. Every token is predicted
// once, with as many tokens before it as the window leaves (the recipe of transformers, "Perplexity
// of fixed-length models").
#include <cstdint>
#include <vector>

namespace forge {

struct Window {
  int64_t begin = 0, end = 0;  // tokens that the model sees
  int64_t first = 0;           // those from here on are predicted; the text's first token never is
};

// Returns windows of at most `window` tokens that begin `stride` tokens apart, 1 ≤ stride ≤ window;
// `tokens` ≥ 2.
std::vector<Window> text_windows(int64_t tokens, int64_t window, int64_t stride);

}  // namespace forge
