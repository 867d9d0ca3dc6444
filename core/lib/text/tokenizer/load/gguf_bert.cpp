#include "core/lib/text/tokenizer/load/gguf_bert.h"

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"

namespace forge::text {
namespace {

constexpr std::string_view kWordStart = "▁";

// GGUF marks the pieces that begin a word, BERT those that continue one. [CLS] and similar tokens
// are the same in both.
std::string bert_token(const std::string& token) {
  if (starts_with(token, "[") && ends_with(token, "]")) return token;
  if (starts_with(token, kWordStart)) return token.substr(kWordStart.size());
  return "##" + token;
}

}  // namespace

void load_bert(const GgufVocabulary& source, TokenizerParts& parts) {
  if (!source.unk_id) {
    throw Error(ErrorKind::environment, source.name +
                                            ": tokenizer.ggml.unknown_token_id is missing, which the model "
                                            "\"bert\" needs");
  }
  Vocabulary vocabulary;
  for (size_t id = 0; id < source.tokens.size(); ++id) {
    const std::string token = bert_token(source.tokens[id]);
    if (!vocabulary.id_of(token)) vocabulary.add(token, static_cast<int64_t>(id), source.name);
  }
  const std::string unk = bert_token(source.tokens[static_cast<size_t>(*source.unk_id)]);
  parts.model = make_wordpiece(std::move(vocabulary), unk, source.name);
  // llama.cpp always lowercases and strips accents; the file does not say how the model was
  // trained.
  parts.normalizer = make_normalizer({{"type", "BertNormalizer"}}, source.name);
  parts.pre_tokenizer = make_pre_tokenizer({{"type", "BertPreTokenizer"}}, source.name, false);
  parts.decoder = make_decoder({{"type", "WordPiece"}}, source.name);
}

}  // namespace forge::text
