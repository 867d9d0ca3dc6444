#pragma once
// Reads the vocabulary of a SentencePiece model file from its protobuf (sentencepiece_model.proto):
// the parts that a GGUF keeps.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace forge {

struct SentencePieceVocabulary {
  std::vector<std::string> pieces;
  std::vector<float> scores;
  std::vector<int32_t> types;  // SentencePiece.Type, whose numbers are GgufTokenType's
  int64_t model_type = 1;      // 1 unigram, 2 bpe, 3 word, 4 char
  std::string normalizer;      // the bytes of its NormalizerSpec; empty without one
};

// Throws Error(environment) for bytes that are not such a message. `name` is for messages.
SentencePieceVocabulary read_sentencepiece(std::string_view bytes, const std::string& name);

}  // namespace forge
