#pragma once
// A unigram SentencePiece model (Kudo, 2018) that cuts like sentencepiece 0.2.3: scores are added
// up in fp32 over the whole text, and of equal sums the one found first counts. A user-defined
// symbol of n bytes scores 0.1 (n - 1), whatever the file says. libsentencepiece 0.1.97, which
// Debian has, compares sums in fp64 with sums that were rounded to fp32, and decides ties
// differently. A model of tokenizer.json adds up in fp64, word by word (unigram.cpp), like the
// tokenizers package.
#include "core/lib/text/sentencepiece_file.h"
#include "core/lib/text/tokenizer/models/models.h"
#include "core/lib/text/tokenizer/models/piece_index.h"

namespace forge::text {

// A character of a text after the model's normaliser, and the bytes of the text that it stands for.
struct NormalCharacter {
  std::string text;
  int32_t begin = 0, end = 0;
};

class SentencePieceUnigram {
 public:
  explicit SentencePieceUnigram(SentencePieceVocabulary vocabulary);
  // The index views the vocabulary's texts, so there are no copies.
  SentencePieceUnigram(const SentencePieceUnigram&) = delete;
  // Appends the tokens of a normalised text. Characters that no piece has become bytes if the
  // vocabulary has all of them, else one unknown token a run.
  void cut(const std::vector<NormalCharacter>& characters, std::vector<WordToken>& tokens) const;

 private:
  SentencePieceVocabulary vocabulary_;
  PieceIndex index_;
  int32_t unknown_ = 0;
  float unknown_score_ = 0;
  std::array<int32_t, 256> byte_ids_;
  bool has_bytes_ = false;
};

// Returns a model file with another vocabulary, which cuts a text, normalised as the model does it,
// into its characters and user-defined symbols, which no normaliser changes.
std::string character_model(const SentencePieceVocabulary& vocabulary);

}  // namespace forge::text
