#include "core/lib/text/tokenizer/models/sentencepiece_unigram.h"


#include <array>
#include <cstring>
#include <limits>
#include <set>

#include "core/lib/base/format.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

constexpr float kSentencepiecePenalty = 10;
// Values of SentencePiece.Type.
constexpr int32_t kNormal = 1, kUnknown = 2, kUserDefined = 4, kByte = 6;

bool takes_part(int32_t type) { return type == kNormal || type == kUserDefined; }

std::vector<std::string_view> pieces_of_text(const SentencePieceVocabulary& vocabulary) {
  std::vector<std::string_view> texts;
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id)
    texts.push_back(takes_part(vocabulary.types[id]) ? std::string_view(vocabulary.pieces[id]) : std::string_view());
  return texts;
}

// Returns the score of a user-defined symbol, which the file's own score does not change: above
// that of any normal piece, and the longer symbol is better.
float score_of_symbol(const std::string& piece) { return static_cast<float>(0.1 * static_cast<double>(piece.size() - 1)); }

// Returns a number in protobuf's wire format.
std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string number_field(uint64_t field, uint64_t value) { return varint(field << 3) + varint(value); }
std::string bytes_field(uint64_t field, std::string_view bytes) { return varint(field << 3 | 2) + varint(bytes.size()) + std::string(bytes); }

std::string byte_name(int byte) { return fmt::format("<0x{:02X}>", byte); }

}  // namespace

SentencePieceUnigram::SentencePieceUnigram(SentencePieceVocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)), index_(pieces_of_text(vocabulary_)) {
  float worst = std::numeric_limits<float>::max();
  byte_ids_.fill(-1);
  for (size_t id = 0; id < vocabulary_.pieces.size(); ++id) {
    const std::string& piece = vocabulary_.pieces[id];
    const int32_t type = vocabulary_.types[id];
    if (type == kNormal) worst = std::min(worst, vocabulary_.scores[id]);
    if (type == kUserDefined && !piece.empty()) vocabulary_.scores[id] = score_of_symbol(piece);
    if (type == kUnknown) unknown_ = static_cast<int32_t>(id);
    if (type != kByte) continue;
    for (int byte = 0; byte < 256; ++byte)
      if (piece == byte_name(byte)) byte_ids_[static_cast<size_t>(byte)] = static_cast<int32_t>(id);
  }
  unknown_score_ = worst - kSentencepiecePenalty;
  has_bytes_ = std::find(byte_ids_.begin(), byte_ids_.end(), -1) == byte_ids_.end();
}

void SentencePieceUnigram::cut(const std::vector<NormalCharacter>& characters, std::vector<WordToken>& tokens) const {
  struct Node {
    float score = 0;
    int32_t start = -1, id = 0;
  };
  std::string text;
  std::vector<size_t> places;                      // offset of each character in the text
  std::vector<int32_t> numbers;                    // the character that begins at a byte, else -1
  for (size_t i = 0; i < characters.size(); ++i) {
    places.push_back(text.size());
    text += characters[i].text;
    numbers.resize(text.size(), -1);
    numbers[places.back()] = static_cast<int32_t>(i);
  }
  places.push_back(text.size());
  numbers.push_back(static_cast<int32_t>(characters.size()));
  std::vector<Node> ends(characters.size() + 1);  // the best way to cut all before a character
  for (size_t i = 0; i < characters.size(); ++i) {
    const float here = ends[i].score;
    bool whole_character = false;
    const auto offer = [&](size_t end, float score, int32_t id) {
      Node& node = ends[end];
      if (node.start < 0 || score > node.score) node = {score, static_cast<int32_t>(i), id};
    };
    index_.prefixes(std::string_view(text).substr(places[i]), [&](size_t bytes, int32_t id) {
      const int32_t end = numbers[places[i] + bytes];
      if (end < 0) return;
      offer(static_cast<size_t>(end), vocabulary_.scores[static_cast<size_t>(id)] + here, id);
      whole_character = whole_character || end == static_cast<int32_t>(i) + 1;
    });
    if (!whole_character) offer(i + 1, unknown_score_ + here, unknown_);
  }
  std::vector<Node> path;
  std::vector<size_t> stops;
  for (size_t end = characters.size(); end > 0; end = static_cast<size_t>(ends[end].start)) path.push_back(ends[end]), stops.push_back(end);
  bool in_unknown = false;
  for (size_t k = path.size(); k-- > 0;) {
    const NormalCharacter &first = characters[static_cast<size_t>(path[k].start)], &last = characters[stops[k] - 1];
    const bool unknown = path[k].id == unknown_;
    if (unknown && has_bytes_) {
      // The last byte also gets the character's end; the others are empty.
      for (size_t b = 0; b < first.text.size(); ++b)
        tokens.push_back({byte_ids_[static_cast<unsigned char>(first.text[b])], first.begin,
                          b + 1 < first.text.size() ? first.begin : first.end});
    } else if (unknown && in_unknown) {
      tokens.back().end = last.end;
    } else {
      tokens.push_back({path[k].id, first.begin, last.end});
    }
    in_unknown = unknown;
  }
}

std::string character_model(const SentencePieceVocabulary& vocabulary) {
  constexpr uint64_t kCharacterModel = 4;
  std::set<std::string> characters, symbols;
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id)
    if (vocabulary.types[id] == kUserDefined && !vocabulary.pieces[id].empty()) symbols.insert(vocabulary.pieces[id]);
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    if (vocabulary.types[id] != kNormal) continue;
    const std::string& piece = vocabulary.pieces[id];
    for (size_t at = 0, length; at < piece.size(); at += length) {
      length = static_cast<size_t>(utf8_length(static_cast<unsigned char>(piece[at])));
      characters.insert(piece.substr(at, length));
    }
  }
  const auto piece = [](const std::string& text, int32_t type) { return bytes_field(1, bytes_field(1, text) + number_field(3, static_cast<uint64_t>(type))); };
  std::string model = piece("<unk>", kUnknown);
  for (const std::string& character : characters)
    if (symbols.count(character) == 0) model += piece(character, kNormal);
  for (const std::string& symbol : symbols) model += piece(symbol, kUserDefined);
  for (int byte = 0; byte < 256; ++byte) model += piece(byte_name(byte), kByte);
  constexpr uint64_t kByteFallback = 35;  // field of TrainerSpec, whose third field is the type
  model += bytes_field(2, number_field(3, kCharacterModel) + number_field(kByteFallback, 1));
  return model + bytes_field(3, vocabulary.normalizer);
}

}  // namespace forge::text
