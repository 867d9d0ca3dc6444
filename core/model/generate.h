#pragma once
// Text from a model: prompts are read packed, their sequences go on together, and one that ends makes room for the next prompt.
#include <cstdint>
#include <functional>
#include <vector>

#include "core/model/decoder.h"

namespace forge {

struct SamplingConfig {
  int64_t max_new_tokens = 256;
  double temperature = 0;  // 0: the most likely token
  int64_t top_k = 0;       // 0: all
  double top_p = 1;
  double min_p = 0;  // relative to the most likely token
  // Logits of tokens that prompt and answer hold are divided by it, negative ones multiplied (Keskar et al., CTRL, 2019); 1: none.
  double repetition_penalty = 1;
  int64_t seed = 42;
  std::vector<int32_t> stop_ids;
};

// What is computed at once. One prompt longer than `prompt_tokens` is read alone.
struct GenerationRoom {
  int64_t sequences = 32, prompt_tokens = 2048;
};

enum class TextEnd { stop, length, not_finite };  // a stop token, max_new_tokens, logits without a number

struct GenerationEnd {
  TextEnd reason = TextEnd::length;
  int64_t tokens = 0;
  double seconds = 0;  // from the reading of its prompt
};

struct GenerationStats {
  int64_t prompt_tokens = 0, tokens = 0;
  double prompt_seconds = 0, token_seconds = 0;  // of reading prompts, and of all other steps
};

// What comes while it comes. `token` (stop tokens excluded) returns false to end that sequence early; `prompt` is a number in
// the list of prompts.
struct GenerationEvents {
  std::function<bool(int64_t prompt, int32_t id)> token;
  std::function<void(int64_t prompt, const GenerationEnd& end)> end;
};

// A draw is a function of (seed, prompt's number, number of the new token): the same in whatever company.
GenerationStats generate(Decoder& decoder, const std::vector<std::vector<int32_t>>& prompts,
                         const SamplingConfig& config, const GenerationRoom& room, const GenerationEvents& events);

}  // namespace forge
