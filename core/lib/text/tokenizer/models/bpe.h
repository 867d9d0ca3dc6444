#pragma once
// Byte pair encoding (Sennrich et al., 2016): of a word's symbols, the adjacent pair with the best
// rank is merged until no pair has a rank.
#include "core/lib/text/tokenizer/models/models.h"

namespace forge::text {

struct BpeSpec {
  Vocabulary vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;  // best first
  std::vector<uint32_t> ranks;  // of the merges, if their order does not give them; may be empty
  std::optional<std::string> unk_token;
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
  std::string where = "tokenizer";  // for messages
};

// Returns a BPE model. Words that come from a ByteLevel step are read as raw bytes if the
// vocabulary has a token for every byte: then nothing needs to be mapped to the alphabet and back.
// Sets `raw_bytes` accordingly.
std::shared_ptr<const Model> make_bpe(BpeSpec spec, bool byte_level, bool* raw_bytes);
// Like make_bpe(), from the "model" of a tokenizer.json.
std::shared_ptr<const Model> make_bpe_from_json(const Json& spec, const std::string& where, bool byte_level,
                                                bool* raw_bytes);

}  // namespace forge::text
