// WordPiece (BERT) takes the longest piece that fits, from left to right; a word that cannot be
// covered is one unknown token. In WordLevel a word is a token or unknown.
#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/models/models.h"
#include "core/lib/text/tokenizer/models/word_cache.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

struct WordSpec {
  Vocabulary vocabulary;
  std::string unk_token;
  std::string prefix;            // ## before pieces that continue a word
  int64_t max_characters = 100;  // longer words are unknown
  std::string where;
};

class WordModel : public Model {
 public:
  explicit WordModel(WordSpec spec) : Model(std::move(spec.vocabulary)), spec_(std::move(spec)) {
    unk_ = vocabulary_.id_of(spec_.unk_token);
  }

 protected:
  WordToken unknown(std::string_view word) const {
    if (!unk_) {
      throw Error(ErrorKind::data, spec_.where + ": the word \"" + std::string(word.substr(0, 80)) +
                                       "\" is unknown and the vocabulary has no \"" + spec_.unk_token + "\"");
    }
    return {*unk_, 0, static_cast<int32_t>(word.size())};
  }

  WordSpec spec_;
};

class WordPiece : public WordModel {
 public:
  using WordModel::WordModel;
  void encode(std::string_view word, std::vector<WordToken>& tokens) const override {
    const auto compute = [this](std::string_view whole, std::vector<WordToken>& fresh) {
      if (!pieces(whole, fresh)) fresh.assign(1, unknown(whole));
    };
    WordCache::each_token(number_, word, compute, [&](const WordToken& token) { tokens.push_back(token); });
  }

 private:
  bool pieces(std::string_view word, std::vector<WordToken>& tokens) const {
    int64_t characters = 0;
    for (size_t at = 0; at < word.size(); next_char(word, at)) {
      if (++characters > spec_.max_characters) return false;
    }
    std::string piece;
    for (size_t begin = 0; begin < word.size();) {
      std::optional<int32_t> id;
      size_t end = word.size();
      for (; end > begin; end = char_before(word, end)) {
        piece.assign(begin > 0 ? spec_.prefix : "");
        piece += word.substr(begin, end - begin);
        id = vocabulary_.id_of(piece);
        if (id) break;
      }
      if (!id) return false;
      tokens.push_back({*id, static_cast<int32_t>(begin), static_cast<int32_t>(end)});
      begin = end;
    }
    return true;
  }

  uint64_t number_ = WordCache::new_model();
};

class WordLevel : public WordModel {
 public:
  using WordModel::WordModel;
  void encode(std::string_view word, std::vector<WordToken>& tokens) const override {
    const auto id = vocabulary_.id_of(word);
    tokens.push_back(id ? WordToken{*id, 0, static_cast<int32_t>(word.size())} : unknown(word));
  }
};

WordSpec word_spec(const Json& spec, const std::string& where) {
  WordSpec words;
  words.where = where;
  words.vocabulary = Vocabulary::from_json(member(spec, "vocab", where), where + ".vocab");
  words.unk_token = string_member(spec, "unk_token", where);
  return words;
}

}  // namespace

std::shared_ptr<const Model> make_wordpiece(const Json& spec, const std::string& where) {
  WordSpec words = word_spec(spec, where);
  words.prefix = string_member(spec, "continuing_subword_prefix", where, "##");
  words.max_characters = int_member(spec, "max_input_chars_per_word", where, 100);
  // Each piece tries every length: the limit keeps long words from taking quadratic time.
  if (words.max_characters < 1 || words.max_characters > 10'000)
    throw file_fault(where, "max_input_chars_per_word: expected 1 to 10000");
  return std::make_shared<WordPiece>(std::move(words));
}

std::shared_ptr<const Model> make_wordpiece(Vocabulary vocabulary, const std::string& unk_token,
                                            const std::string& where) {
  return std::make_shared<WordPiece>(WordSpec{std::move(vocabulary), unk_token, "##", 100, where});
}

std::shared_ptr<const Model> make_wordlevel(const Json& spec, const std::string& where) {
  return std::make_shared<WordLevel>(word_spec(spec, where));
}

}  // namespace forge::text
