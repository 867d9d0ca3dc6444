// Loads tokenizers of GGUF files: "gpt2" is byte-level BPE, "llama" is SentencePiece BPE by scores,
// "bert" is WordPiece.
//
// A GGUF's qwen2 vocabulary is not composed (NFC), although its tokenizer.json's is: llama.cpp owns
// the format and does not compose.
#include <algorithm>
#include <functional>

#include "core/lib/base/hash.h"
#include "core/lib/base/text.h"
#include "core/lib/text/tokenizer/load/class_rules.h"
#include "core/lib/text/tokenizer/load/gguf_pre.h"
#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/load/parts.h"
#include "core/lib/text/tokenizer/models/bpe.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge {
namespace {

using namespace text;

GgufTokenType type_of(const GgufVocabulary& source, size_t id) {
  return source.token_types.empty() ? GgufTokenType::normal
                                    : static_cast<GgufTokenType>(source.token_types[id]);
}

void check(const GgufVocabulary& source) {
  const size_t count = source.tokens.size();
  if (count == 0) throw file_fault(source.name, "tokenizer.ggml.tokens is empty or missing");
  if (count > static_cast<size_t>(kMaxTokenId))
    throw file_fault(source.name, "tokenizer.ggml.tokens has {} entries", count);
  for (const auto& [key, entries] :
       {std::pair{"token_type", source.token_types.size()}, {"scores", source.scores.size()}})
    if (entries != 0 && entries != count)
      throw file_fault(source.name,
                       "tokenizer.ggml.{} has {} entries, expected as many as tokens: {}", key,
                       entries, count);
  for (size_t id = 0; id < count; ++id)
    if (!valid_utf8(source.tokens[id]))
      throw file_fault(source.name, "tokenizer.ggml.tokens[{}] is not UTF-8", id);
  const std::pair<const char*, const std::optional<int64_t>*> ids[] = {{"bos", &source.bos_id},
                                                                       {"eos", &source.eos_id},
                                                                       {"unknown", &source.unk_id},
                                                                       {"padding", &source.pad_id}};
  for (const auto& [what, id] : ids)
    if (*id && (**id < 0 || **id >= static_cast<int64_t>(count)))
      throw file_fault(source.name, "tokenizer.ggml.{}_token_id is {}, expected 0 to {}", what,
                       **id, count - 1);
}

// Returns the vocabulary, without merges.
BpeSpec bpe_of(const GgufVocabulary& source) {
  BpeSpec bpe;
  bpe.where = source.name;
  for (size_t id = 0; id < source.tokens.size(); ++id) {
    if (bpe.vocabulary.id_of(source.tokens[id])) continue;  // the first of equal tokens counts
    bpe.vocabulary.add(source.tokens[id], static_cast<int64_t>(id), source.name);
  }
  return bpe;
}

// Splits "left right". The separating space is never the first character, since a token may begin
// with one.
std::pair<std::string, std::string> merge_of(const GgufVocabulary& source, size_t k) {
  const std::string& text = source.merges[k];
  const size_t space = text.find(' ', 1);
  if (space == std::string::npos || space + 1 == text.size())
    throw file_fault(source.name, "tokenizer.ggml.merges[{}]: expected two tokens and a space", k);
  return {text.substr(0, space), text.substr(space + 1)};
}

void load_gpt2(const GgufVocabulary& source, TokenizerParts& parts, bool* add_bos) {
  const GgufPre pre = gguf_pre_tokenizer(source.pre.empty() ? "default" : source.pre, source.name);
  BpeSpec bpe = bpe_of(source);
  for (size_t k = 0; k < source.merges.size(); ++k) bpe.merges.push_back(merge_of(source, k));
  set_byte_level(parts, std::move(bpe), pre);
  *add_bos = pre.add_bos;
}

// Adds every way to make a piece of two pieces, with the rank of its score. Equal scores have equal
// ranks, and then the leftmost pair of the word is merged first.
void add_merges(const GgufVocabulary& source, BpeSpec& bpe) {
  std::vector<float> scores(source.scores);
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  for (size_t id = 0; id < source.tokens.size(); ++id) {
    if (type_of(source, id) != GgufTokenType::normal) continue;
    const auto place = std::lower_bound(scores.begin(), scores.end(), source.scores[id], std::greater<>());
    const std::string_view token = source.tokens[id];
    for (size_t at = 0; at < token.size();) {
      next_char(token, at);
      if (at == token.size()) break;
      const std::string_view left = token.substr(0, at), right = token.substr(at);
      if (!bpe.vocabulary.id_of(left) || !bpe.vocabulary.id_of(right)) continue;
      bpe.merges.emplace_back(left, right);
      bpe.ranks.push_back(static_cast<uint32_t>(place - scores.begin()));
    }
  }
}

// SentencePiece's kind of BPE has no list of merges: any two neighbours that make a piece may
// merge, the best score first.
void load_llama(const GgufVocabulary& source, TokenizerParts& parts) {
  if (source.scores.empty())
    throw file_fault(source.name,
                     "tokenizer.ggml.scores is missing, which the model \"llama\" needs");
  for (const float score : source.scores)
    if (!(score == score)) throw file_fault(source.name, "tokenizer.ggml.scores holds NaN");
  BpeSpec bpe = bpe_of(source);
  bpe.byte_fallback = true;
  bpe.fuse_unk = true;
  bpe.unk_token = source.tokens[static_cast<size_t>(source.unk_id.value_or(0))];
  add_merges(source, bpe);
  bool raw_bytes = false;
  parts.model = make_bpe(std::move(bpe), false, &raw_bytes);
  const bool prefix = source.add_space_prefix.value_or(true);
  Json normalizers = Json::array();
  if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", "▁"}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}});
  parts.normalizer = make_normalizer({{"type", "Sequence"}, {"normalizers", normalizers}}, source.name);
  parts.decoder = make_decoder(sentencepiece_decoder(prefix), source.name);
}

constexpr std::string_view kWordStart = "▁";

// GGUF marks the pieces that begin a word, BERT those that continue one. [CLS] and similar tokens
// are the same in both.
std::string bert_token(const std::string& token) {
  if (starts_with(token, "[") && ends_with(token, "]")) return token;
  if (starts_with(token, kWordStart)) return token.substr(kWordStart.size());
  return "##" + token;
}

void load_bert(const GgufVocabulary& source, TokenizerParts& parts) {
  if (!source.unk_id)
    throw file_fault(source.name,
                     "tokenizer.ggml.unknown_token_id is missing, which the model \"bert\" needs");
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

std::optional<int32_t> narrow(const std::optional<int64_t>& id) {
  return id ? std::optional(static_cast<int32_t>(*id)) : std::nullopt;
}

std::string hash_of(const GgufVocabulary& source) {
  Hasher hasher;
  hasher.add(source.model).add(source.pre);
  for (const std::string& token : source.tokens) hasher.add(std::string_view(token));
  for (const float score : source.scores) hasher.add(&score, sizeof(score));
  for (const int32_t type : source.token_types) hasher.add(static_cast<int64_t>(type));
  for (const std::string& merge : source.merges) hasher.add(std::string_view(merge));
  for (const auto& id : {source.bos_id, source.eos_id, source.unk_id, source.pad_id})
    hasher.add(id.value_or(-1));
  for (const auto& flag : {source.add_bos, source.add_eos, source.add_space_prefix}) {
    hasher.add(static_cast<int64_t>(flag ? *flag : 2));
  }
  return hasher.hex();
}

}  // namespace

Tokenizer load_gguf_tokenizer(const GgufVocabulary& source) {
  check(source);
  auto parts = std::make_shared<TokenizerParts>();
  parts->name = source.name;
  bool add_bos = false, add_eos = false;
  if (source.model == "gpt2") {
    load_gpt2(source, *parts, &add_bos);
  } else if (source.model == "llama") {
    load_llama(source, *parts);
    add_bos = true;
  } else if (source.model == "bert") {
    load_bert(source, *parts);
    add_bos = add_eos = true;
  } else {
    throw file_fault(source.name, "forge does not know the tokenizer \"{}\" (tokenizer.ggml.model)",
                     source.model)
        .hint("known: bert, gpt2, llama; or put the model's tokenizer.json beside the file");
  }
  for (size_t id = 0; id < source.tokens.size(); ++id) {
    const GgufTokenType type = type_of(source, id);
    const bool parsed = type == GgufTokenType::control || type == GgufTokenType::user_defined;
    if (!parsed && !(type == GgufTokenType::unknown && source.model == "llama")) continue;
    parts->add_token({.content = source.tokens[id],
                      .id = static_cast<int32_t>(id),
                      .special = type != GgufTokenType::user_defined,
                      .normalized = false});
  }
  parts->bos_id = narrow(source.bos_id);
  parts->eos_id = narrow(source.eos_id);
  parts->unk_id = narrow(source.unk_id);
  parts->pad_id = narrow(source.pad_id);
  parts->finish_with(source.add_bos.value_or(add_bos), source.add_eos.value_or(add_eos));
  parts->content_hash = hash_of(source);
  return Tokenizer(std::move(parts));
}

}  // namespace forge
