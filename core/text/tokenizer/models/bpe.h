#pragma once
// Byte pair encoding (Sennrich et al., 2016): a word's symbols, of which the adjacent pair with the best rank
// is merged until no pair has one.
#include "core/text/tokenizer/models/models.h"

namespace forge::text {

struct BpeSpec {
  Vocabulary vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;  // best first
  std::vector<uint32_t> ranks;  // of the merges, where their order alone does not tell; may be empty
  std::optional<std::string> unk_token;
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
  std::string where = "tokenizer";  // for messages
};

// Words that come from a ByteLevel step are read as raw bytes where the vocabulary has a token for every
// byte: then nothing needs to be mapped to the alphabet and back. Sets `raw_bytes` accordingly.
std::shared_ptr<const Model> make_bpe(BpeSpec spec, bool byte_level, bool* raw_bytes);
// The same from the "model" of a tokenizer.json.
std::shared_ptr<const Model> make_bpe_from_json(const Json& spec, const std::string& where, bool byte_level,
                                                bool* raw_bytes);

}  // namespace forge::text
