#include "core/lib/text/tokenizer/models/sentencepiece_bpe.h"

#include <algorithm>
#include <map>

#include "core/lib/base/error.h"
#include "core/lib/text/tokenizer/models/bpe.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

// Adds every way to make a piece of two pieces, with the rank of its score. Equal scores have equal
// ranks, and then the leftmost pair of the word is merged first.
void add_merges(const GgufVocabulary& source, BpeSpec& bpe) {
  std::vector<float> scores(source.scores);
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  for (size_t id = 0; id < source.tokens.size(); ++id) {
    const auto type = source.token_types.empty() ? GgufTokenType::normal
                                                 : static_cast<GgufTokenType>(source.token_types[id]);
    if (type != GgufTokenType::normal) continue;
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

Json replace_step(const char* from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

}  // namespace

void load_llama(const GgufVocabulary& source, TokenizerParts& parts) {
  if (source.scores.empty()) {
    throw Error(ErrorKind::environment,
                source.name + ": tokenizer.ggml.scores is missing, which the model \"llama\" needs");
  }
  for (const float score : source.scores) {
    if (!(score == score))
      throw Error(ErrorKind::environment, source.name + ": tokenizer.ggml.scores holds NaN");
  }
  BpeSpec bpe;
  bpe.where = source.name;
  bpe.byte_fallback = true;
  bpe.fuse_unk = true;
  for (size_t id = 0; id < source.tokens.size(); ++id) {
    if (bpe.vocabulary.id_of(source.tokens[id])) continue;
    bpe.vocabulary.add(source.tokens[id], static_cast<int64_t>(id), source.name);
  }
  const auto unk = static_cast<size_t>(source.unk_id.value_or(0));
  bpe.unk_token = source.tokens[unk];
  add_merges(source, bpe);
  bool raw_bytes = false;
  parts.model = make_bpe(std::move(bpe), false, &raw_bytes);
  const bool prefix = source.add_space_prefix.value_or(true);
  Json normalizers = Json::array();
  if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", "▁"}});
  normalizers.push_back(replace_step(" ", "▁"));
  parts.normalizer = make_normalizer({{"type", "Sequence"}, {"normalizers", normalizers}}, source.name);
  Json decoders = {replace_step("▁", " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  parts.decoder = make_decoder({{"type", "Sequence"}, {"decoders", decoders}}, source.name);
}

}  // namespace forge::text
