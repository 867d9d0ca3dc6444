#pragma once
// Models turn one word into token ids.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/lib/io/json.h"

namespace forge::text {

// A token inside a word: bytes [begin, end) of the word's text.
struct WordToken {
  int32_t id;
  int32_t begin;
  int32_t end;
};

// Largest id of a vocabulary. No matrix of embeddings has more rows, and tables are sized by the
// largest id.
constexpr int64_t kMaxTokenId = (1 << 24) - 1;

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <class Value>
using StringMap = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;

// Tokens by text and by id. Both directions may have gaps and, in faulty files, two texts for one
// id.
class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;
  // Throws Error(environment) for a negative or huge id. A later token of the same text wins.
  void add(const std::string& token, int64_t id, const std::string& where);
  std::optional<int32_t> id_of(std::string_view token) const;
  const std::string* token_of(int32_t id) const;  // nullptr outside the vocabulary
  // Returns the ids of the tokens <0x00> to <0xFF>, -1 for each that is missing.
  std::array<int32_t, 256> byte_ids() const;
  int64_t max_id() const { return static_cast<int64_t>(by_id_.size()) - 1; }  // -1 when empty
  int64_t size() const { return static_cast<int64_t>(by_text_.size()); }
  const StringMap<int32_t>& by_text() const { return by_text_; }
  // Reads {"token": id, …}.
  static Vocabulary from_json(const Json& object, const std::string& where);

 private:
  StringMap<int32_t> by_text_;
  std::vector<const std::string*> by_id_;  // point into by_text_
};

class Model {
 public:
  virtual ~Model() = default;
  // Appends the tokens of a word that is not empty.
  virtual void encode(std::string_view word, std::vector<WordToken>& tokens) const = 0;
  virtual void encode_ids(std::string_view word, std::vector<int32_t>& ids) const;
  virtual int64_t size() const { return vocabulary_.size(); }  // number of tokens
  const Vocabulary& vocabulary() const { return vocabulary_; }
  std::optional<int32_t> unk_id() const { return unk_; }

 protected:
  explicit Model(Vocabulary vocabulary = {}) : vocabulary_(std::move(vocabulary)) {}
  Vocabulary vocabulary_;
  std::optional<int32_t> unk_;
};

// Returns the model for "model" of a tokenizer.json. Throws Error(environment) naming an unknown
// type. `byte_level`: the words come from a ByteLevel step. `raw_bytes` is set if the model takes
// them as plain bytes.
std::shared_ptr<const Model> make_model(const Json& spec, const std::string& where, bool byte_level,
                                        bool* raw_bytes);

// The models, one file each.
std::shared_ptr<const Model> make_unigram(const Json& spec, const std::string& where);
std::shared_ptr<const Model> make_wordpiece(const Json& spec, const std::string& where);
// Uses BERT's settings: ## before pieces that continue a word, words of at most 100 characters.
std::shared_ptr<const Model> make_wordpiece(Vocabulary vocabulary, const std::string& unk_token,
                                            const std::string& where);
std::shared_ptr<const Model> make_wordlevel(const Json& spec, const std::string& where);

}  // namespace forge::text
