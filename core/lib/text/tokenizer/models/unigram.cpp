// Unigram (Kudo, 2018): cuts a word into the pieces with the largest sum of log probabilities
// (Viterbi).
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/models/models.h"
#include "core/lib/text/tokenizer/models/piece_index.h"
#include "core/lib/text/tokenizer/models/word_cache.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

constexpr double kUnknownPenalty = 10.0;  // an unknown character scores this much below the worst piece

struct UnigramSpec {
  std::vector<std::pair<std::string, double>> pieces;  // by id; score is a log probability
  std::optional<int64_t> unk_id;
  bool byte_fallback = false;
  std::string where = "tokenizer";  // for messages
};

std::vector<std::string_view> texts_of(const std::vector<std::pair<std::string, double>>& pieces) {
  std::vector<std::string_view> texts;
  for (const auto& [text, score] : pieces) texts.push_back(text);
  return texts;
}

class Unigram : public Model {
 public:
  explicit Unigram(UnigramSpec spec) : spec_(std::move(spec)), index_(texts_of(spec_.pieces)) {
    double worst = std::numeric_limits<double>::infinity();
    for (size_t id = 0; id < spec_.pieces.size(); ++id) {
      vocabulary_.add(spec_.pieces[id].first, static_cast<int64_t>(id), spec_.where);
      worst = std::min(worst, spec_.pieces[id].second);
    }
    unknown_score_ = worst - kUnknownPenalty;
    if (spec_.unk_id && (*spec_.unk_id < 0 || *spec_.unk_id >= size()))
      throw file_fault(spec_.where, "unk_id {} is outside the vocabulary of {}", *spec_.unk_id,
                       size());
    if (spec_.unk_id) unk_ = static_cast<int32_t>(*spec_.unk_id);
    byte_id_ = vocabulary_.byte_ids();
  }

  void encode(std::string_view word, std::vector<WordToken>& tokens) const override {
    const auto compute = [this](std::string_view whole, std::vector<WordToken>& fresh) { cut(whole, fresh); };
    WordCache::each_token(number_, word, compute, [&](const WordToken& token) { tokens.push_back(token); });
  }

  // Counts pieces with equal texts separately.
  int64_t size() const override { return static_cast<int64_t>(spec_.pieces.size()); }

 private:
  struct Node {
    double score = 0;
    int32_t start = -1;
    int32_t id = 0;
  };

  void cut(std::string_view word, std::vector<WordToken>& tokens) const {
    std::vector<WordToken> path = best_path(word);
    // Adjacent unknown characters form one unknown token.
    for (size_t k = 0; k < path.size(); ++k) {
      WordToken token = path[k];
      if (token.id != unk_) {
        tokens.push_back(token);
        continue;
      }
      while (k + 1 < path.size() && path[k + 1].id == unk_) token.end = path[++k].end;
      add_unknown(word, token, tokens);
    }
  }

  // Returns the best cut of the word. ends[k] is the best way to cut word[0, k).
  std::vector<WordToken> best_path(std::string_view word) const {
    std::vector<Node> ends(word.size() + 1);
    for (size_t at = 0; at < word.size();) {
      const auto length = static_cast<size_t>(utf8_length(static_cast<unsigned char>(word[at])));
      const double here = ends[at].score;
      bool whole_character = false;
      const auto offer = [&](size_t end, double score, int32_t id) {
        Node& node = ends[end];
        if (node.start < 0 || score > node.score) node = {score, static_cast<int32_t>(at), id};
      };
      index_.prefixes(word.substr(at), [&](size_t bytes, int32_t id) {
        offer(at + bytes, spec_.pieces[static_cast<size_t>(id)].second + here, id);
        whole_character = whole_character || bytes == length;
      });
      if (!whole_character) {
        if (!unk_)
          throw Error(ErrorKind::data, spec_.where + ": an unknown character, and the model has no unk_id");
        offer(at + length, unknown_score_ + here, *unk_);
      }
      at += length;
    }
    std::vector<WordToken> path;
    for (auto end = static_cast<int32_t>(word.size()); end > 0; end = ends[static_cast<size_t>(end)].start) {
      const Node& node = ends[static_cast<size_t>(end)];
      path.push_back({node.id, node.start, end});
    }
    std::reverse(path.begin(), path.end());
    return path;
  }

  void add_unknown(std::string_view word, WordToken token, std::vector<WordToken>& tokens) const {
    const std::string_view text =
        word.substr(static_cast<size_t>(token.begin), static_cast<size_t>(token.end - token.begin));
    if (const auto id = vocabulary_.id_of(text)) {  // unknown characters that happen to spell a token
      tokens.push_back({*id, token.begin, token.end});
      return;
    }
    const auto has_token = [this](unsigned char byte) { return byte_id_[byte] >= 0; };
    if (!spec_.byte_fallback || !std::ranges::all_of(text, has_token))
      return tokens.push_back(token);
    for (const unsigned char byte : text)
      tokens.push_back({byte_id_[byte], token.begin, token.end});
  }

  UnigramSpec spec_;
  PieceIndex index_;
  double unknown_score_ = 0;
  std::array<int32_t, 256> byte_id_;
  uint64_t number_ = WordCache::new_model();
};

}  // namespace

std::shared_ptr<const Model> make_unigram(const Json& spec, const std::string& where) {
  UnigramSpec unigram;
  unigram.where = where;
  const Json& vocab = array_member(spec, "vocab", where);
  for (size_t id = 0; id < vocab.size(); ++id) {
    const Json& piece = vocab[id];
    if (!piece.is_array() || piece.size() != 2 || !piece[0].is_string() || !piece[1].is_number())
      throw file_fault(fmt::format("{}.vocab[{}]", where, id), "expected [token, score]");
    unigram.pieces.emplace_back(piece[0].get<std::string>(), piece[1].get<double>());
  }
  if (find_member(spec, "unk_id") != nullptr) unigram.unk_id = int_member(spec, "unk_id", where, 0);
  unigram.byte_fallback = bool_member(spec, "byte_fallback", where, false);
  return std::make_shared<Unigram>(std::move(unigram));
}

}  // namespace forge::text
