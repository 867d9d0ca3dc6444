#pragma once
// The tokenizer of a GGUF file (keys tokenizer.ggml.*) as plain values. The reader of GGUF fills
// it, the tokenizer reads it, and neither depends on the other.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace forge {

// tokenizer.ggml.token_type
enum class GgufTokenType : int32_t {
  normal = 1,
  unknown = 2,
  control = 3,       // special: parsed in text, skipped when decoding
  user_defined = 4,  // parsed in text, kept when decoding
  unused = 5,
  byte = 6,  // <0x41>
};

struct GgufVocabulary {
  std::string name;   // the file, for messages
  std::string model;  // tokenizer.ggml.model: gpt2 (byte-level BPE), llama (SentencePiece BPE) or bert (WordPiece)
  std::string pre;    // tokenizer.ggml.pre: smollm, llama-bpe, qwen2 …; empty is "default"
  std::vector<std::string> tokens;   // by id
  std::vector<float> scores;         // by id; may be empty for gpt2
  std::vector<int32_t> token_types;  // GgufTokenType by id; may be empty
  std::vector<std::string> merges;   // "left right", best first (gpt2)
  std::optional<int64_t> bos_id, eos_id, unk_id, pad_id;
  std::optional<bool> add_bos, add_eos;  // tokenizer.ggml.add_bos_token, add_eos_token
  std::optional<bool> add_space_prefix;  // tokenizer.ggml.add_space_prefix
};

}  // namespace forge
