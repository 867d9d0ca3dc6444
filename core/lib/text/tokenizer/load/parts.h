#pragma once
// The components of a Tokenizer, assembled by a loader and then never changed.
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/lib/text/tokenizer/added_tokens.h"
#include "core/lib/text/tokenizer/decoders.h"
#include "core/lib/text/tokenizer/models/models.h"
#include "core/lib/text/tokenizer/normalize/normalizers.h"
#include "core/lib/text/tokenizer/post_processors.h"
#include "core/lib/text/tokenizer/pre/pre_tokenizers.h"

namespace forge {

struct TokenizerParts {
  std::string name;  // the file, for messages
  text::Normalizer normalizer;
  text::PreTokenizer pre_tokenizer;
  std::shared_ptr<const text::Model> model;
  text::PostProcessor post_processor;
  text::Decoder decoder;      // without one, tokens are joined with spaces
  bool byte_decoder = false;  // the decoder is ByteLevel alone
  text::TokenFinder raw_tokens;         // added tokens looked for in the text as it is
  text::TokenFinder normalized_tokens;  // added tokens looked for in the normalised text
  std::unordered_map<int32_t, text::AddedToken> added;
  std::unordered_map<int32_t, std::string> added_normalized;  // decoding shows the form that was matched
  text::StringMap<int32_t> added_ids;
  std::set<std::string, std::less<>> special_contents;

  std::optional<int32_t> bos_id, eos_id, pad_id, unk_id;
  std::vector<int32_t> before, behind;  // ids that the template adds around a text
  std::string content_hash;
  std::string class_note;  // how transformers reads the file otherwise; empty if it does not

  // Registers an added token with its final id. Needs the normalizer.
  void add_token(const text::AddedToken& token);
  // Fills the ids that the template adds. It must be called last.
  void finish();
  // Calls finish() with a template that puts bos_id first and eos_id last, if there are such.
  void finish_with(bool adds_bos, bool adds_eos);

  std::optional<int32_t> id_of(std::string_view token) const;
  const std::string* decoded_token(int32_t id) const;
  int64_t max_id() const;
};

}  // namespace forge
