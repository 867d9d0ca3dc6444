#include "core/text/tokenizer/load/tokenizer_config.h"

#include "core/text/tokenizer/load/json_fields.h"

namespace forge::text {
namespace {

std::string config_beside(const std::string& path) {
  const size_t slash = path.rfind('/');
  return (slash == std::string::npos ? "" : path.substr(0, slash + 1)) + "tokenizer_config.json";
}

int32_t id_of_key(const std::string& key, const std::string& where) {
  const bool digits =
      !key.empty() && key.size() < 9 && key.find_first_not_of("0123456789") == std::string::npos;
  if (!digits)
    throw Error(ErrorKind::environment,
                where + ": added_tokens_decoder: expected an id, found \"" + key + "\"");
  return std::stoi(key);
}

}  // namespace

TokenizerConfig::TokenizerConfig(const std::string& model_path, const std::string& text)
    : name_(config_beside(model_path)),
      json_(text.empty() ? Json::object()
                         : parse_json(text, name_, ErrorKind::environment, kTokenizerConfigLimits)) {}

bool TokenizerConfig::add_tokens(TokenizerParts& parts) const {
  const Json* added = find_member(json_, "added_tokens_decoder");
  if (added == nullptr || !added->is_object()) return false;
  for (const auto& [key, spec] : added->items()) {
    AddedToken token = added_token(spec, name_);
    token.id = id_of_key(key, name_);
    const auto twin = parts.added.find(token.id);
    if (twin != parts.added.end() && twin->second.content != token.content) {
      throw Error(ErrorKind::environment, name_ + ": added_tokens_decoder: the id " + std::to_string(token.id) +
                                              " appears twice, for \"" + twin->second.content + "\" and for \"" +
                                              token.content + "\"");
    }
    const auto known = parts.id_of(token.content);
    if (known && *known != token.id) {
      throw Error(ErrorKind::environment, name_ + ": added_tokens_decoder: \"" + token.content +
                                              "\" has the id " + key + " here and " + std::to_string(*known) +
                                              " in the model");
    }
    if (!parts.added.contains(token.id)) parts.add_token(token);
  }
  return !added->empty();
}

void TokenizerConfig::name_ids(TokenizerParts& parts) const {
  for (auto [key, id] :
       {std::pair{"bos_token", &parts.bos_id}, {"eos_token", &parts.eos_id}, {"pad_token", &parts.pad_id}}) {
    const Json* named = find_member(json_, key);
    if (named != nullptr && named->is_object()) named = find_member(*named, "content");
    if (named == nullptr || !named->is_string()) continue;
    if (const auto found = parts.id_of(named->get<std::string>())) *id = found;
  }
}

void TokenizerConfig::add_template(TokenizerParts& parts, bool add_bos) const {
  std::vector<int32_t> before, behind;
  if (bool_member(json_, "add_bos_token", name_, add_bos) && parts.bos_id) before.push_back(*parts.bos_id);
  if (bool_member(json_, "add_eos_token", name_, false) && parts.eos_id) behind.push_back(*parts.eos_id);
  parts.post_processor = make_template(before, behind);
}

}  // namespace forge::text
