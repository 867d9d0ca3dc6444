#pragma once
// The pre-tokenizers that GGUF files name, as llama.cpp defines them (src/llama-vocab.cpp).
#include <string>
#include <vector>

namespace forge {
struct TokenizerParts;
}

namespace forge::text {

struct BpeSpec;

// A GGUF pre-tokenizer. The patterns split the text one after another, and each isolates its
// matches.
struct GgufPre {
  std::vector<std::string> patterns;
  bool ignore_merges = false;  // a word that is a token as a whole is that token
  bool add_bos = false;        // default of tokenizer.ggml.add_bos_token
};

// Returns a pre-tokenizer by name. Throws Error(environment) naming an unknown one and the nearest
// known.
GgufPre gguf_pre_tokenizer(const std::string& name, const std::string& where);

// Returns llama.cpp's name of the pre-tokenizer with these patterns; empty if there is none.
std::string gguf_pre_name(const std::vector<std::string>& patterns, bool ignore_merges);

// Sets the model, pre-tokenizer and decoder of a byte-level tokenizer: `bpe` over the words that
// `pre` cuts.
void set_byte_level(TokenizerParts& parts, BpeSpec bpe, const GgufPre& pre);

}  // namespace forge::text
