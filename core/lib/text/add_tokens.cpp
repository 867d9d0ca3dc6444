#include "core/lib/text/add_tokens.h"

#include <algorithm>
#include <set>

#include "core/lib/base/file.h"
#include "core/lib/base/key_error.h"
#include "core/lib/io/python_json.h"
#include "core/lib/text/tokenizer/added_tokens.h"
#include "core/lib/text/tokenizer/load/late_tokens.h"

namespace forge {
namespace {

struct KnownTokens {
  std::set<std::string> texts;
  int64_t next_id = 0;  // one more than the largest

  void add(const std::string& text, int64_t id) {
    texts.insert(text);
    next_id = std::max(next_id, id + 1);
  }
};

KnownTokens known_tokens(const Json& root) {
  KnownTokens known;
  const Json* vocabulary = text::vocabulary_of(root);
  if (vocabulary != nullptr && vocabulary->is_array())
    known.next_id = static_cast<int64_t>(vocabulary->size());
  if (vocabulary != nullptr && vocabulary->is_object())
    for (const auto& [token, id] : vocabulary->items()) known.add(token, id.get<int64_t>());
  for (const Json& token : root.value("added_tokens", Json::array()))
    known.add(token.value("content", ""), token.value("id", int64_t{-1}));
  return known;
}

[[noreturn]] void refuse_kind(const std::string& what) {
  throw KeyError(ErrorKind::job, "model.add_tokens", what + ", to which forge adds no tokens",
                 "put the model's tokenizer.json into its folder (transformers writes one)");
}

}  // namespace

std::string with_added_tokens(const TokenizerJson& source, const std::vector<std::string>& tokens) {
  Json root = whole_tokenizer_json(source);
  if (!root.is_object()) throw Error(ErrorKind::environment, source.name + ": expected an object");
  KnownTokens known = known_tokens(root);
  for (const std::string& token : tokens)
    if (known.texts.insert(token).second)
      root["added_tokens"].push_back(text::token_entry(known.next_id++, token, false));
  return dump_python_json(root);
}

void add_tokens(GgufVocabulary& vocabulary, const std::vector<std::string>& tokens) {
  if (tokens.empty()) return;
  if (vocabulary.model != "gpt2")
    refuse_kind(vocabulary.name + " holds a vocabulary of kind " + vocabulary.model);
  vocabulary.token_types.resize(vocabulary.tokens.size(), static_cast<int32_t>(GgufTokenType::normal));
  for (const std::string& token : tokens) {
    if (std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), token) != vocabulary.tokens.end())
      continue;
    vocabulary.tokens.push_back(token);
    vocabulary.token_types.push_back(static_cast<int32_t>(GgufTokenType::user_defined));
    if (!vocabulary.scores.empty()) vocabulary.scores.push_back(0);
  }
}

Tokenizer open_tokenizer_with(const std::string& model_dir, const std::vector<std::string>& tokens) {
  if (tokens.empty()) return open_tokenizer(model_dir);
  if (!file_exists(model_dir + "/tokenizer.json")) refuse_kind(model_dir + " holds no tokenizer.json");
  TokenizerJson source = read_tokenizer_json(model_dir);
  source.tokenizer = with_added_tokens(source, tokens);
  return load_tokenizer_json(source);
}

}  // namespace forge
