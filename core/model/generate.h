#pragma once
// Generates text with a model: prompts are read packed, their sequences go on together, and one
// that ends makes room for the next prompt.
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/model/decoder.h"

namespace forge {

struct SamplingConfig {
  int64_t max_new_tokens = 256;
  double temperature = 0;  // 0: the most likely token
  int64_t top_k = 0;       // 0: all
  double top_p = 1;
  double min_p = 0;  // relative to the most likely token
  // Logits of tokens that prompt and answer hold are divided by it, negative ones multiplied
  // (Keskar et al., CTRL, 2019); 1: none.
  double repetition_penalty = 1;
  int64_t seed = 42;
  std::vector<int32_t> stop_ids;
  std::vector<std::vector<int32_t>> stop_sequences;  // end a text too, as its last tokens
  int64_t samples = 1;                               // texts of each prompt, which is read once for all of them
  std::vector<uint64_t> streams;                     // of each text's draws; empty: its number
  std::vector<int64_t> limits;                       // most tokens of each text; empty: max_new_tokens
  // Tokens of a text that are guessed (look_up) and computed with its next one, in places that no
  // other text needs. A guess stays where the draw made of the true logits is the same, so no token
  // changes that rounding does not; 0: none.
  int64_t lookup_tokens = 0;
};

// Limits of what is computed at once: a token of each text, or their guesses. A prompt longer than
// `prompt_tokens` is read alone.
struct GenerationRoom {
  int64_t sequences = 32, prompt_tokens = 2048;
};

enum class TextEnd { stop, length, not_finite };  // a stop token, max_new_tokens, logits without a number

struct GenerationEnd {
  TextEnd reason = TextEnd::length;
  int64_t tokens = 0;
  int32_t stop_id = -1;     // the stop token, which is not among the text's own
  float stop_logp = 0;      // its log-probability
  int64_t stop_tokens = 0;  // of the text's own, a stop sequence at its end
  double seconds = 0;  // from the reading of its prompt
};

struct GenerationStats {
  int64_t prompt_tokens = 0, tokens = 0;
  int64_t guessed = 0, guessed_right = 0;
  int64_t cache_bytes = 0;  // the most that keys and values took
  double prompt_seconds = 0, token_seconds = 0;  // of reading prompts, and of all other steps
};

// Callbacks that receive tokens as they are generated. `token` (stop tokens excluded) returns false
// to end that text early. Text t is sample t mod `samples` of prompt t / `samples`. `logp` is that
// of the token at the temperature, among all tokens.
struct GenerationEvents {
  std::function<bool(int64_t text, int32_t id, float logp)> token;
  // If set: gives −∞ to tokens that must not come next; then nothing is guessed. `left`: tokens
  // that the text may still have, this one counted.
  std::function<void(int64_t text, int64_t left, std::span<float> logits)> restrict = nullptr;
  std::function<void(int64_t text, const GenerationEnd& end)> end;
  std::function<void()> step = nullptr;  // if set: all unfinished texts have their next token
};

// Returns `most` tokens that may come next: those that followed the latest earlier place of the
// last three tokens of `held`, or two; none if there is no such place. `held` is the prompt and the
// answer so far. A text that repeats itself or its prompt is likely to go on as it did (Saxena,
// Prompt Lookup Decoding, 2023).
std::vector<int32_t> look_up(const std::vector<int32_t>& held, size_t most);

// Tokens that sequence 0 of a decoder holds from one call to the next.
struct KeptTokens {
  std::vector<int32_t> ids;
};

// Generates texts. A draw is a function of (seed, the text's stream, number of the new token),
// whatever the other texts are. All texts of a prompt begin together, so `room` holds as many. With
// `kept` there must be one prompt and one sample. Then only the prompt's tokens after its common
// part with the kept ones are computed (and counted).
GenerationStats generate(Decoder& decoder, const std::vector<std::vector<int32_t>>& prompts,
                         const SamplingConfig& config, const GenerationRoom& room, const GenerationEvents& events,
                         KeptTokens* kept = nullptr);

}  // namespace forge
