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
#include "core/lib/text/tokenizer/load/parts.h"
#include "core/lib/text/tokenizer/models/bpe.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge {
namespace {

using namespace text;

[[noreturn]] void refuse(const GgufVocabulary& source, const std::string& what) {
  throw Error(ErrorKind::environment, source.name + ": " + what);
}

GgufTokenType type_of(const GgufVocabulary& source, size_t id) {
  return source.token_types.empty() ? GgufTokenType::normal
                                    : static_cast<GgufTokenType>(source.token_types[id]);
}

void check(const GgufVocabulary& source) {
  const size_t count = source.tokens.size();
  if (count == 0) refuse(source, "tokenizer.ggml.tokens is empty or missing");
  if (count > static_cast<size_t>(kMaxTokenId))
    refuse(source, "tokenizer.ggml.tokens has " + std::to_string(count) + " entries");
  for (const auto& [key, entries] :
       {std::pair{"token_type", source.token_types.size()}, {"scores", source.scores.size()}}) {
    if (entries != 0 && entries != count)
      refuse(source, std::string("tokenizer.ggml.") + key + " has " + std::to_string(entries) +
                         " entries, expected as many as tokens: " + std::to_string(count));
  }
  for (size_t id = 0; id < count; ++id) {
    if (!valid_utf8(source.tokens[id]))
      refuse(source, "tokenizer.ggml.tokens[" + std::to_string(id) + "] is not UTF-8");
  }
  const std::pair<const char*, const std::optional<int64_t>*> ids[] = {{"bos", &source.bos_id},
                                                                       {"eos", &source.eos_id},
                                                                       {"unknown", &source.unk_id},
                                                                       {"padding", &source.pad_id}};
  for (const auto& [what, id] : ids) {
    if (*id && (**id < 0 || **id >= static_cast<int64_t>(count))) {
      refuse(source, std::string("tokenizer.ggml.") + what + "_token_id is " + std::to_string(**id) +
                         ", expected 0 to " + std::to_string(count - 1));
    }
  }
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
  if (space == std::string::npos || space + 1 == text.size()) {
    refuse(source, "tokenizer.ggml.merges[" + std::to_string(k) + "]: expected two tokens and a space");
  }
  return {text.substr(0, space), text.substr(space + 1)};
}

void load_gpt2(const GgufVocabulary& source, TokenizerParts& parts, bool* add_bos) {
  const GgufPre pre = gguf_pre_tokenizer(source.pre.empty() ? "default" : source.pre, source.name);
  BpeSpec bpe = bpe_of(source);
  bpe.ignore_merges = pre.ignore_merges;
  for (size_t k = 0; k < source.merges.size(); ++k) bpe.merges.push_back(merge_of(source, k));
  bool raw_bytes = false;
  parts.model = make_bpe(std::move(bpe), true, &raw_bytes);
  std::vector<PreTokenizer> steps;
  for (const std::string& pattern : pre.patterns) {
    steps.push_back(make_split(pattern, true, SplitBehavior::isolated, false, source.name));
  }
  steps.push_back(make_byte_level(false, false, raw_bytes));
  parts.pre_tokenizer = one_after_another(std::move(steps));
  parts.decoder = make_decoder(Json{{"type", "ByteLevel"}}, source.name);
  parts.byte_decoder = true;
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
    refuse(source, "tokenizer.ggml.scores is missing, which the model \"llama\" needs");
  for (const float score : source.scores) {
    if (!(score == score)) refuse(source, "tokenizer.ggml.scores holds NaN");
  }
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
    refuse(source, "tokenizer.ggml.unknown_token_id is missing, which the model \"bert\" needs");
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
    throw Error(ErrorKind::environment, source.name + ": forge does not know the tokenizer \"" +
                                            source.model + "\" (tokenizer.ggml.model)")
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
  std::vector<int32_t> before, behind;
  if (source.add_bos.value_or(add_bos) && parts->bos_id) before.push_back(*parts->bos_id);
  if (source.add_eos.value_or(add_eos) && parts->eos_id) behind.push_back(*parts->eos_id);
  parts->post_processor = {PostStep{.before = before, .behind = behind}};
  parts->finish();
  parts->content_hash = hash_of(source);
  return Tokenizer(std::move(parts));
}

}  // namespace forge
