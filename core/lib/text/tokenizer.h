#pragma once
// Converts text to token ids and back like the Hugging Face `tokenizers` package, with the same ids
// and the same offsets.
//
//   const Tokenizer tokenizer = open_tokenizer("models/SmolLM2-135M-Instruct");
//   std::vector<int32_t> ids;
//   tokenizer.encode_ids("Hello world", ids);
//   std::string text = tokenizer.decode(ids);                      // "Hello world"
//
// A Tokenizer is an immutable value. Copies share their tables, and every const member may be
// called from any number of threads at once. Text is UTF-8; other bytes throw Error(data).
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/lib/io/json.h"
#include "core/lib/text/gguf_vocabulary.h"

namespace forge {

// One token and the bytes [begin, end) of the input text that it stands for. Offsets are always
// between characters: a token that holds a part of a character spans the whole character. A token
// that a template adds (<s>) has [0, 0). The Python package reports the same places counted in
// characters.
struct TokenSpan {
  int32_t id = 0;
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const TokenSpan&) const = default;
};

struct EncodeOptions {
  bool add_special_tokens = false;  // tokens of the tokenizer's own template, e.g. a leading <s>
  bool parse_special = true;        // "<|im_end|>" in the text becomes the control token
};

// A part of a text. Control tokens are recognised only inside consecutive segments that may hold
// them.
struct TextSegment {
  std::string_view text;
  bool may_hold_special = false;
};

struct TokenizerParts;

class Tokenizer {
 public:
  explicit Tokenizer(std::shared_ptr<const TokenizerParts> parts);

  std::vector<TokenSpan> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Appends the ids alone. This is faster than encode().
  void encode_ids(std::string_view text, std::vector<int32_t>& ids, const EncodeOptions& options = {}) const;
  // Returns the tokens of all segments' texts joined, with offsets into the joined text. Splitting
  // into words sees the joined text, so a boundary of segments changes nothing by itself. But a
  // control token is never made of bytes of a segment that may not hold one, not even in part.
  // Added tokens that are not control tokens are found everywhere.
  std::vector<TokenSpan> encode_segments(const std::vector<TextSegment>& segments,
                                         bool add_special_tokens = false) const;

  // Decodes ids. Ids outside the vocabulary are left out, as in the package. Bytes that are not
  // UTF-8 become U+FFFD.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;

  std::optional<int32_t> id_of(std::string_view token) const;
  std::optional<std::string> token_of(int32_t id) const;
  // Returns the bytes that a token writes independent of its neighbours: for every token of a
  // byte-level tokenizer, and for byte tokens (<0x41>). Returns nothing for other tokens, and for
  // ids outside the vocabulary.
  std::optional<std::string> bytes_of(int32_t id) const;
  // Returns one more than the largest id: the least number of embedding rows that fits.
  int64_t vocab_size() const;
  bool is_special(int32_t id) const;
  // True for tokens by which a template can mark the end of a turn: control tokens, and added
  // tokens that are not blank, as <|im_end|> is in tokenizers that call it no control token.
  bool is_mark(int32_t id) const;
  // Returns the added tokens that are not simply found where they stand: they take blanks beside
  // them, or want no letter there (lstrip, rstrip, single_word).
  std::vector<std::string> tokens_that_see_beside() const;
  // Returns the first control token that is written out in the text; empty if there is none.
  std::string control_token_in(std::string_view text) const;
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  std::optional<int32_t> pad_id() const;
  std::optional<int32_t> unk_id() const;
  // True if add_special_tokens puts bos_id() first, or eos_id() last.
  bool adds_bos() const;
  bool adds_eos() const;
  // Returns a hash of everything that decides ids: two tokenizers with equal hashes encode equally.
  const std::string& content_hash() const;
  // Says that transformers 5 cuts texts otherwise with the same files, and why; empty if it does
  // not (class_rules.h).
  const std::string& class_note() const;

 private:
  std::shared_ptr<const TokenizerParts> parts_;
};

// Decodes tokens that arrive one by one. Characters cut by a token boundary wait for their end.
//
//   DecodeStream stream(tokenizer);
//   while (...) print(stream.push(id));
//   print(stream.finish());
class DecodeStream {
 public:
  explicit DecodeStream(Tokenizer tokenizer, bool skip_special = false)
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}
  // Returns the text that became certain with this token; often empty.
  std::string push(int32_t id);
  // Returns the remaining text, with U+FFFD for bytes that never became a character.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  std::vector<int32_t> ids_;  // the context before the last flush, then the later tokens
  size_t shown_ids_ = 0;      // number of ids_ that are context
};

// Opens the tokenizer of a model folder: tokenizer.json (with the files beside it that
// TokenizerJson names), else tokenizer.model. Throws Error(environment) that names the files looked
// for.
Tokenizer open_tokenizer(const std::string& model_dir);

// The texts of a tokenizer.json and of the files beside it; an empty text is an absent file. `name`
// is for messages. The rules are those of transformers 5: tokens of all files are tokens
// (late_tokens.h), and the template is tokenizer.json's, whatever add_bos_token and add_eos_token
// say beside it. Blanks are put by the class that transformers opens the files with
// (class_rules.h).
struct TokenizerJson {
  std::string name = "tokenizer.json";
  std::string tokenizer;
  std::string config;              // tokenizer_config.json
  std::string special_tokens_map;  // special_tokens_map.json
  std::string added_tokens;        // added_tokens.json
  std::string model_config;        // config.json, whose model_type decides how transformers reads the rest
};
// Reads the files of a folder that has a tokenizer.json.
TokenizerJson read_tokenizer_json(const std::string& model_dir);
// Returns tokenizer.json with the tokens of the other files among its added_tokens.
Json whole_tokenizer_json(const TokenizerJson& source);
Tokenizer load_tokenizer_json(const TokenizerJson& source);

// Loads the vocabulary of a GGUF file. Throws Error(environment) naming an unknown model or
// pre-tokenizer.
Tokenizer load_gguf_tokenizer(const GgufVocabulary& vocabulary);

// Loads a SentencePiece model file (unigram or BPE). `config` is the text of tokenizer_config.json
// or empty.
Tokenizer load_sentencepiece(const std::string& path, const std::string& config = {});

}  // namespace forge
