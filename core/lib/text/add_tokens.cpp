#include "core/lib/text/add_tokens.h"

#include <algorithm>

#include "core/lib/base/file.h"
#include "core/lib/base/key_error.h"
#include "core/lib/io/python_json.h"

namespace forge {
namespace {

// Returns one more than the largest id of a list or map of tokens.
int64_t ids_of(const Json& root) {
  int64_t next = 0;
  const Json model = root.value("model", Json::object());
  if (const auto vocabulary = model.find("vocab"); vocabulary != model.end()) {
    if (vocabulary->is_array()) next = static_cast<int64_t>(vocabulary->size());
    if (vocabulary->is_object())
      for (const auto& [token, id] : vocabulary->items()) next = std::max(next, id.get<int64_t>() + 1);
  }
  for (const Json& token : root.value("added_tokens", Json::array()))
    next = std::max(next, token.value("id", int64_t{-1}) + 1);
  return next;
}

bool has_token(const Json& root, const std::string& text) {
  const Json model = root.value("model", Json::object());
  if (const auto vocabulary = model.find("vocab");
      vocabulary != model.end() && vocabulary->is_object() && vocabulary->contains(text))
    return true;
  const Json added = root.value("added_tokens", Json::array());
  return std::any_of(added.begin(), added.end(),
                     [&](const Json& token) { return token.value("content", "") == text; });
}

[[noreturn]] void refuse_kind(const std::string& what) {
  throw KeyError(ErrorKind::job, "model.add_tokens", what + ", to which forge adds no tokens",
                 "put the model's tokenizer.json into its folder (transformers writes one)");
}

}  // namespace

std::string with_added_tokens(const TokenizerJson& source, const std::vector<std::string>& tokens) {
  Json root = whole_tokenizer_json(source);
  if (!root.is_object()) throw Error(ErrorKind::environment, source.name + ": expected an object");
  int64_t next = ids_of(root);
  for (const std::string& token : tokens)
    if (!has_token(root, token))
      root["added_tokens"].push_back({{"id", next++},
                                      {"content", token},
                                      {"single_word", false},
                                      {"lstrip", false},
                                      {"rstrip", false},
                                      {"normalized", false},
                                      {"special", false}});
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
