#include "core/lib/text/tokenizer/load/tokenizer_config.h"

#include "core/lib/base/file.h"
#include "core/lib/base/hash.h"
#include "core/lib/io/python_json.h"
#include "core/lib/text/tokenizer/load/json_fields.h"

namespace forge::text {
namespace {

constexpr int64_t kLargestFile = 64 << 20;
constexpr const char *kSpecialTokensMap = "special_tokens_map.json", *kAddedTokens = "added_tokens.json";

Json object_of(const std::string& text, const std::string& name) {
  if (text.empty()) return Json::object();
  Json json = parse_python_json(text, name);
  if (!json.is_object()) throw file_fault(name, "expected an object");
  return json;
}

std::string content_beside(const std::string& path, const char* name) {
  const std::string file = beside(path, name);
  return file_exists(file) ? read_file(file, kLargestFile, ErrorKind::environment) : "";
}

}  // namespace

TokenizerConfig::TokenizerConfig(const std::string& model_path, const std::string& text)
    : name_(beside(model_path, "tokenizer_config.json")),
      model_path_(model_path),
      text_(text),
      special_tokens_map_(content_beside(model_path, kSpecialTokensMap)),
      added_tokens_(content_beside(model_path, kAddedTokens)),
      files_{object_of(text_, name_), object_of(special_tokens_map_, beside(model_path, kSpecialTokensMap)),
             object_of(added_tokens_, beside(model_path, kAddedTokens))} {}

bool TokenizerConfig::add_tokens(TokenizerParts& parts) const {
  const std::vector<LateToken> tokens = late_tokens(files_, model_path_);
  for (const LateToken& late : tokens) {
    AddedToken token = added_token(late.token, name_);
    const auto known = parts.id_of(token.content);
    if (known && late.id && *known != *late.id)
      throw file_fault("beside " + model_path_, "\"{}\" has the id {}, but in the model {}",
                       token.content, *late.id, *known);
    const int64_t id = known ? *known : late.id.value_or(parts.max_id() + 1);
    const auto twin = parts.added.find(static_cast<int32_t>(id));
    if (twin != parts.added.end() && twin->second.content != token.content)
      throw file_fault("beside " + model_path_,
                       "the id {} appears twice, for \"{}\" and for \"{}\"", id,
                       twin->second.content, token.content);
    token.id = static_cast<int32_t>(id);
    if (twin == parts.added.end()) parts.add_token(token);
  }
  return !tokens.empty();
}

PrefixRule TokenizerConfig::prefix_rule() const {
  const std::string named = string_member(files_.config, "tokenizer_class", name_, "LlamaTokenizer");
  if (named.find("LlamaTokenizer") == std::string::npos) return PrefixRule::of_model;
  if (!bool_member(files_.config, "add_prefix_space", name_, true)) return PrefixRule::none;
  return bool_member(files_.config, "legacy", name_, true) ? PrefixRule::of_model : PrefixRule::at_start;
}

void TokenizerConfig::finish(TokenizerParts& parts, std::string_view model) const {
  for (auto [key, id] : {std::pair{"bos_token", &parts.bos_id},
                         {"eos_token", &parts.eos_id},
                         {"pad_token", &parts.pad_id}})
    if (const auto found = named_id(parts, files_, key)) *id = found;
  const bool adds_bos = bool_member(files_.config, "add_bos_token", name_, true);
  parts.finish_with(adds_bos, bool_member(files_.config, "add_eos_token", name_, false));
  parts.content_hash =
      Hasher().add(model).add(text_).add(special_tokens_map_).add(added_tokens_).hex();
}

}  // namespace forge::text
