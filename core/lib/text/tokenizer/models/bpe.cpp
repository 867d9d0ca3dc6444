#include "core/lib/text/tokenizer/models/bpe.h"

#include <algorithm>
#include <array>

#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/models/bpe_merges.h"
#include "core/lib/text/tokenizer/models/word_cache.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

constexpr std::string_view kSpace = "▁";  // SentencePiece's

class Bpe : public Model {
 public:
  Bpe(BpeSpec spec, bool byte_level)
      : Model(std::move(spec.vocabulary)), spec_(std::move(spec)), merges_(spec_.merges.size()) {
    add_merges();
    if (spec_.unk_token) unk_ = vocabulary_.id_of(*spec_.unk_token);
    raw_ = byte_level && spec_.continuing_subword_prefix.empty() && spec_.end_of_word_suffix.empty();
    // A vocabulary may lack bytes that were not in its training text. unk stands for those.
    const bool falls_back =
        spec_.byte_fallback && std::ranges::any_of(fallback_, [](int32_t id) { return id >= 0; });
    const bool may_lack = spec_.unk_token && !falls_back;
    for (int byte = 0; byte < 256 && raw_; ++byte) {
      const std::string symbol = utf8_of(byte_to_alphabet(static_cast<unsigned char>(byte)));
      byte_id_[byte] = vocabulary_.id_of(symbol).value_or(-1);
      raw_ = byte_id_[byte] >= 0 || may_lack;
    }
    if (raw_ && spec_.ignore_merges) {
      for (const auto& [token, id] : vocabulary_.by_text())
        if (auto bytes = alphabet_bytes(token)) whole_.emplace(std::move(*bytes), id);
    }
    find_joints();
    spec_.merges = {};
    spec_.ranks = {};
  }

  bool raw() const { return raw_; }

  void encode(std::string_view word, std::vector<WordToken>& tokens) const override {
    each_token(word, [&](const WordToken& token) { tokens.push_back(token); });
  }

  void encode_ids(std::string_view word, std::vector<int32_t>& ids) const override {
    each_token(word, [&](const WordToken& token) { ids.push_back(token.id); });
  }

 private:
  void add_merges() {
    const auto id_of = [this](size_t rank, const std::string& token) {
      if (const auto id = vocabulary_.id_of(token)) return *id;
      throw file_fault(spec_.where, "merges[{}]: the token \"{}\" is not in the vocabulary", rank,
                       token.substr(0, 80));
    };
    const std::string& prefix = spec_.continuing_subword_prefix;
    for (size_t rank = 0; rank < spec_.merges.size(); ++rank) {
      const auto& [left, right] = spec_.merges[rank];
      if (right.size() < prefix.size())
        throw file_fault(spec_.where,
                         "merges[{}]: \"{}\" is shorter than continuing_subword_prefix", rank,
                         right);
      const int32_t left_id = id_of(rank, left), right_id = id_of(rank, right);
      const int32_t merged_id = id_of(rank, left + right.substr(prefix.size()));
      merges_.set(left_id, right_id,
                  {spec_.ranks.empty() ? static_cast<uint32_t>(rank) : spec_.ranks[rank], merged_id});
    }
  }

  // Finds where a text can be split. SentencePiece's vocabularies have no pre-tokenizer: a whole
  // text is one word. But before a "▁" that no merge joins to the preceding byte, it falls apart
  // into independent words.
  void find_joints() {
    falls_apart_ = !raw_ && !spec_.ignore_merges && spec_.continuing_subword_prefix.empty() &&
                   spec_.end_of_word_suffix.empty() && vocabulary_.id_of(kSpace);
    for (const auto& [left, right] : spec_.merges) {
      if (!falls_apart_) return;
      if (left.empty() || !right.starts_with(kSpace)) continue;
      joint_[static_cast<unsigned char>(left.back())] = true;
      // The text of unk and byte tokens does not end the way their names do.
      falls_apart_ =
          left != spec_.unk_token && !std::ranges::count(fallback_, *vocabulary_.id_of(left));
    }
  }

  // Returns the bytes of the first word of a text that falls apart. Several "▁" stay together if a
  // merge joins them.
  size_t first_word(std::string_view text) const {
    for (size_t at = text.find(kSpace, 1); at != text.npos; at = text.find(kSpace, at + 1))
      if (!joint_[static_cast<unsigned char>(text[at - 1])]) return at;
    return text.size();
  }

  std::optional<int32_t> whole_word(std::string_view word) const {
    if (!spec_.ignore_merges) return std::nullopt;
    if (!raw_) return vocabulary_.id_of(word);
    const auto found = whole_.find(word);
    return found == whole_.end() ? std::nullopt : std::optional(found->second);
  }

  // Calls visit(token) for the tokens of a text.
  template <class Visit>
  void each_token(std::string_view text, Visit visit) const {
    const auto compute = [this](std::string_view word, std::vector<WordToken>& tokens) {
      thread_local std::vector<Symbol> symbols;
      merge(word, symbols);
      int32_t at = 0;
      for (const Symbol& symbol : symbols) {
        tokens.push_back({symbol.id, at, at + symbol.bytes});
        at += symbol.bytes;
      }
    };
    if (!falls_apart_) return WordCache::each_token(number_, text, compute, visit);
    int32_t begin = 0;
    do {
      const size_t bytes = first_word(text);
      WordCache::each_token(number_, text.substr(0, bytes), compute, [&](const WordToken& token) {
        visit(WordToken{token.id, begin + token.begin, begin + token.end});
      });
      begin += static_cast<int32_t>(bytes);
      text.remove_prefix(bytes);
    } while (!text.empty());
  }

  void merge(std::string_view word, std::vector<Symbol>& symbols) const {
    symbols.clear();
    if (const std::optional<int32_t> id = whole_word(word))
      return symbols.push_back({*id, static_cast<int32_t>(word.size())});
    if (raw_) {
      add_bytes(word, symbols);
    } else {
      add_characters(word, symbols);
    }
    apply_merges(merges_, symbols);
  }

  void add_bytes(std::string_view word, std::vector<Symbol>& symbols) const {
    bool unknown = false;  // the last symbol is for bytes without their own
    for (const char byte : word) {
      const int32_t id = byte_id_[static_cast<unsigned char>(byte)];
      if (id < 0 && unknown && spec_.fuse_unk) {
        ++symbols.back().bytes;
        continue;
      }
      unknown = id < 0;
      if (unknown && !unk_) throw unknown_token_missing();
      symbols.push_back({unknown ? *unk_ : id, 1});
    }
  }

  // The order is the package's, where a pending unknown character may be overtaken by byte tokens.
  void add_characters(std::string_view word, std::vector<Symbol>& symbols) const {
    std::optional<Symbol> unknown;
    std::string symbol;
    const auto flush = [&] {
      if (unknown) symbols.push_back(*unknown);
      unknown.reset();
    };
    for (size_t at = 0; at < word.size();) {
      const size_t begin = at;
      next_char(word, at);
      const auto bytes = static_cast<int32_t>(at - begin);
      symbol.clear();
      if (begin > 0) symbol += spec_.continuing_subword_prefix;
      symbol += word.substr(begin, at - begin);
      if (at == word.size()) symbol += spec_.end_of_word_suffix;
      if (const auto id = vocabulary_.id_of(symbol)) {
        flush();
        symbols.push_back({*id, bytes});
      } else if (spec_.byte_fallback && has_all_bytes(symbol)) {
        for (const char byte : symbol) symbols.push_back({fallback_[static_cast<unsigned char>(byte)], 1});
      } else if (spec_.unk_token) {
        if (!unk_) throw unknown_token_missing();
        if (unknown && spec_.fuse_unk) {
          unknown->bytes += bytes;
        } else {
          flush();
          unknown = Symbol{*unk_, bytes};
        }
      }
    }
    flush();
  }

  Error unknown_token_missing() const {
    return file_fault(spec_.where, "unk_token \"{}\" is needed but is not in the vocabulary",
                      *spec_.unk_token);
  }

  bool has_all_bytes(std::string_view symbol) const {
    return std::ranges::all_of(symbol, [this](unsigned char byte) { return fallback_[byte] >= 0; });
  }

  BpeSpec spec_;
  MergeTable merges_;
  bool raw_ = false;
  std::array<int32_t, 256> byte_id_{};
  std::array<int32_t, 256> fallback_ = vocabulary_.byte_ids();
  StringMap<int32_t> whole_;  // raw bytes of tokens, for ignore_merges
  bool falls_apart_ = false;
  std::array<bool, 256> joint_{};  // last bytes of what a merge joins to a "▁"
  uint64_t number_ = WordCache::new_model();
};

}  // namespace

std::shared_ptr<const Model> make_bpe(BpeSpec spec, bool byte_level, bool* raw_bytes) {
  auto model = std::make_shared<Bpe>(std::move(spec), byte_level);
  *raw_bytes = model->raw();
  return model;
}

std::shared_ptr<const Model> make_bpe_from_json(const Json& spec, const std::string& where, bool byte_level,
                                                bool* raw_bytes) {
  if (const Json* dropout = find_member(spec, "dropout"); dropout != nullptr && *dropout != 0)
    throw file_fault(where, "dropout: forge encodes deterministically, so BPE dropout is refused")
        .hint("set \"dropout\": null");
  BpeSpec bpe;
  bpe.where = where;
  bpe.vocabulary = Vocabulary::from_json(member(spec, "vocab", where), where + ".vocab");
  if (find_member(spec, "unk_token") != nullptr) bpe.unk_token = string_member(spec, "unk_token", where);
  bpe.continuing_subword_prefix = string_member(spec, "continuing_subword_prefix", where, "");
  bpe.end_of_word_suffix = string_member(spec, "end_of_word_suffix", where, "");
  bpe.fuse_unk = bool_member(spec, "fuse_unk", where, false);
  bpe.byte_fallback = bool_member(spec, "byte_fallback", where, false);
  bpe.ignore_merges = bool_member(spec, "ignore_merges", where, false);
  const Json& merges = array_member(spec, "merges", where);
  for (size_t k = 0; k < merges.size(); ++k) {
    const Json& merge = merges[k];
    const std::string place = where + ".merges[" + std::to_string(k) + "]";
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      bpe.merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
    } else if (merge.is_string()) {
      const std::string text = merge.get<std::string>();
      if (text.starts_with("#version")) continue;
      const size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        throw file_fault(place, "expected two tokens and one space, found \"{}\"", text);
      bpe.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    } else {
      throw file_fault(place, "expected a pair of tokens");
    }
  }
  return make_bpe(std::move(bpe), byte_level, raw_bytes);
}

}  // namespace forge::text
