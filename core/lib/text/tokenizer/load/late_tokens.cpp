#include "core/lib/text/tokenizer/load/late_tokens.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>

#include "core/lib/base/text.h"
#include "core/lib/text/tokenizer/load/json_fields.h"

namespace forge::text {
namespace {

// The names are PreTrainedTokenizerBase.SPECIAL_TOKENS_ATTRIBUTES.
constexpr const char* kNamed[] = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

Json token_of(const std::string& content, bool special) {
  return {{"content", content}, {"single_word", false}, {"lstrip", false}, {"rstrip", false}, {"normalized", !special}, {"special", special}};
}

// Returns a token as a file writes it, with all flags; null for a value that is no token.
Json whole_token(const Json& spec, bool special) {
  if (spec.is_string()) return token_of(spec.get<std::string>(), special);
  const Json* content = find_member(spec, "content");
  if (content == nullptr || !content->is_string()) return nullptr;
  const bool stated = find_member(spec, "special") != nullptr && spec["special"].is_boolean();
  Json token = token_of(content->get<std::string>(), stated ? spec["special"].get<bool>() : special);
  for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"})
    if (const Json* value = find_member(spec, flag); value != nullptr && value->is_boolean()) token[flag] = *value;
  return token;
}

std::string content_of(const Json& token) { return token.at("content").get<std::string>(); }

class Collector {
 public:
  Collector(const TokenFiles& files, std::string where) : settings_(files.config), where_(std::move(where)) {
    const Json* decoder = find_member(settings_, "added_tokens_decoder");
    if (decoder != nullptr && decoder->is_object())
      add_decoder(*decoder);
    else
      add_older_files(files);
    for (const char* key : kNamed) add_named(key);
    for (const auto& [key, value] : settings_.items())
      if (ends_with(key, "_token") && std::find(std::begin(kNamed), std::end(kNamed), key) == std::end(kNamed)) add_named(key);
    for (const Json& extra : extras()) add(whole_token(extra, true), std::nullopt, true);
  }

  std::vector<LateToken> take() { return std::move(tokens_); }

 private:
  void add(Json token, std::optional<int64_t> id, bool named) {
    if (token.is_null() || content_of(token).empty()) return;
    tokens_.push_back({std::move(token), id, named});
  }
  void add_named(const std::string& key) {
    if (const Json* value = find_member(settings_, key.c_str())) add(whole_token(*value, true), std::nullopt, true);
  }
  void add_decoder(const Json& decoder) {
    std::map<int64_t, Json> by_id;
    for (const auto& [key, spec] : decoder.items()) by_id[id_of(key)] = whole_token(spec, false);
    for (auto& [id, token] : by_id) add(std::move(token), id, false);
  }
  // special_tokens_map.json overrides the configuration, and added_tokens.json gives ids.
  void add_older_files(const TokenFiles& files) {
    for (const auto& [key, value] : files.special_tokens_map.items()) settings_[key] = value;
    std::set<std::string> special;
    for (const char* key : kNamed)
      if (const Json* value = find_member(settings_, key))
        if (const Json token = whole_token(*value, true); !token.is_null()) special.insert(content_of(token));
    for (const Json& extra : extras())
      if (const Json token = whole_token(extra, true); !token.is_null()) special.insert(content_of(token));
    std::map<int64_t, std::string> by_id;
    for (const auto& [content, id] : files.added_tokens.items())
      if (id.is_number_integer()) by_id[id.get<int64_t>()] = content;
    for (const auto& [id, content] : by_id) add(token_of(content, special.count(content) > 0), id, false);
  }
  // Returns extra_special_tokens, formerly additional_special_tokens: a list, or names to tokens.
  std::vector<Json> extras() const {
    const Json* found = find_member(settings_, "extra_special_tokens");
    if (found == nullptr) found = find_member(settings_, "additional_special_tokens");
    std::vector<Json> list;
    if (found != nullptr && (found->is_array() || found->is_object()))
      for (const auto& [key, value] : found->items()) list.push_back(value);
    return list;
  }
  int64_t id_of(const std::string& key) const {
    const bool digits = !key.empty() && key.size() < 9 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!digits)
      throw file_fault("beside " + where_, "added_tokens_decoder: expected an id, found \"{}\"",
                       key);
    return std::stoll(key);
  }

  Json settings_;
  std::string where_;
  std::vector<LateToken> tokens_;
};

// Returns the vocabulary's ids of the contents of `tokens`, in one pass: JSON objects here are
// lists.
std::unordered_map<std::string, int64_t> vocabulary_ids(const Json& root, const std::vector<LateToken>& tokens) {
  std::set<std::string> wanted;
  for (const LateToken& late : tokens) wanted.insert(content_of(late.token));
  std::unordered_map<std::string, int64_t> ids;
  const Json* vocabulary = vocabulary_of(root);
  if (vocabulary == nullptr || wanted.empty()) return ids;
  int64_t row = 0;
  for (const auto& [key, value] : vocabulary->items()) {
    const bool listed = vocabulary->is_array() && value.is_array() && !value.empty() && value[0].is_string();
    const std::string content = listed ? value[0].get<std::string>() : key;
    if ((listed || value.is_number_integer()) && wanted.count(content) > 0) ids[content] = listed ? row : value.get<int64_t>();
    ++row;
  }
  return ids;
}

}  // namespace

const Json* vocabulary_of(const Json& root) {
  const Json* model = find_member(root, "model");
  return model == nullptr ? nullptr : find_member(*model, "vocab");
}

std::vector<LateToken> late_tokens(const TokenFiles& files, const std::string& where) { return Collector(files, where).take(); }

std::string beside(const std::string& path, const char* file) {
  return path.substr(0, path.rfind('/') + 1) + file;
}

std::optional<int32_t> named_id(const TokenizerParts& parts, const TokenFiles& files,
                                const std::string& key) {
  const Json* decoder = find_member(files.config, "added_tokens_decoder");
  const bool map_first = decoder == nullptr || !decoder->is_object();
  for (const Json* file : map_first ? std::array{&files.special_tokens_map, &files.config} : std::array{&files.config, &files.special_tokens_map})
    if (const Json* value = find_member(*file, key.c_str()))
      if (const Json token = whole_token(*value, true);
          !token.is_null() && !content_of(token).empty())
        return parts.id_of(content_of(token));
  return std::nullopt;
}

void add_late_tokens(Json& root, const TokenFiles& files, const std::string& where) {
  const std::vector<LateToken> late = late_tokens(files, where);
  if (late.empty()) return;
  std::unordered_map<std::string, int64_t> known = vocabulary_ids(root, late);
  if (find_member(root, "added_tokens") == nullptr) root["added_tokens"] = Json::array();
  Json& added = root["added_tokens"];
  if (!added.is_array()) return;  // refused by its reader
  const Json* vocabulary = vocabulary_of(root);
  int64_t next = vocabulary == nullptr ? 0 : static_cast<int64_t>(vocabulary->size());
  std::unordered_map<std::string, size_t> places;
  for (size_t k = 0; k < added.size(); ++k) {
    const int64_t id = int_member(added[k], "id", where, -1);
    const Json* content = find_member(added[k], "content");
    if (content == nullptr || !content->is_string()) continue;
    next = std::max(next, id + 1);
    places[content->get<std::string>()] = k;
  }
  for (const LateToken& token : late) {
    const std::string content = content_of(token.token);
    if (const auto place = places.find(content); place != places.end()) {
      if (!token.named)
        for (const auto& [flag, value] : token.token.items()) added[place->second][flag] = value;
      continue;
    }
    const auto row = known.find(content);
    const int64_t id = row == known.end() ? next : row->second;
    if (row == known.end() && token.id && *token.id != id)
      throw file_fault("beside " + where,
                       "the token \"{}\" has the id {}, and transformers would number it {}",
                       content, *token.id, id)
          .hint("put it into tokenizer.json's added_tokens with its id");
    Json entry{{"id", id}};
    entry.update(token.token);
    places[content] = added.size();
    added.push_back(entry);
    next = std::max(next, id + 1);
  }
}

}  // namespace forge::text
