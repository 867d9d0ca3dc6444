// Loads tokenizer.json, with the files beside it.
#include <algorithm>

#include "core/lib/base/hash.h"
#include "core/lib/base/text.h"
#include "core/lib/io/python_json.h"
#include "core/lib/text/tokenizer/load/class_rules.h"
#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/load/late_tokens.h"
#include "core/lib/text/tokenizer/load/parts.h"
#include "core/lib/text/tokenizer/load/probes.h"

namespace forge {
namespace {

using namespace text;

Json parse_or_empty(const std::string& content, const std::string& name) {
  if (content.empty()) return Json::object();
  return parse_python_json(content, name);
}

// Adds the tokens. A token that the model knows keeps the model's id. A file that contradicts it is
// refused, since the embeddings match only one of the two. A new token has the id that the file
// states. The package numbers it after the vocabulary's size instead, which is another id only if
// the vocabulary's own ids have a gap; it warns about those.
void add_tokens(TokenizerParts& parts, const Json& list, const std::string& where) {
  int64_t next = parts.model->size();
  for (size_t k = 0; k < list.size(); ++k) {
    const std::string place = where + "[" + std::to_string(k) + "]";
    AddedToken token = added_token(list[k], place);
    const int64_t stated = int_member(list[k], "id", place, -1);
    if (stated < 0 && find_member(list[k], "id") != nullptr)
      throw file_fault(place, "id: {} is negative", stated);
    const auto known = parts.id_of(token.content);
    if (known && *known != stated && stated >= 0)
      throw file_fault(place, "the token \"{}\" has the id {} here and {} in the vocabulary",
                       token.content, stated, *known)
          .hint("one of the two is wrong; the row of the embedding matrix decides");
    const int64_t id = known ? *known : stated >= 0 ? stated : next;
    if (id < 0 || id > kMaxTokenId) throw file_fault(place, "id: expected 0 to {}", kMaxTokenId);
    token.id = static_cast<int32_t>(id);
    if (const std::string* other = known ? nullptr : parts.decoded_token(token.id))
      throw file_fault(place, "the id {} of \"{}\" already belongs to \"{}\"", id, token.content,
                       other->substr(0, 80));
    next = std::max(next, id + 1);
    parts.add_token(token);
  }
}

text::TokenFiles files_beside(const TokenizerJson& source) {
  return {parse_or_empty(source.config, beside(source.name, "tokenizer_config.json")),
          parse_or_empty(source.special_tokens_map, beside(source.name, "special_tokens_map.json")),
          parse_or_empty(source.added_tokens, beside(source.name, "added_tokens.json"))};
}

Json whole_json(const TokenizerJson& source, const text::TokenFiles& files) {
  Json root = parse_python_json(source.tokenizer, source.name);
  if (root.is_object()) add_late_tokens(root, files, source.name);
  return root;
}

// Returns config.json, which has a reader of its own that reports its faults: empty if it cannot be
// read.
Json model_config(const TokenizerJson& source) {
  try {
    Json config = parse_or_empty(source.model_config, beside(source.name, "config.json"));
    return config.is_object() ? config : Json::object();
  } catch (const Error&) {
    return Json::object();
  }
}

// Says what the class's own parts do otherwise than the file's; empty if no probe shows it. Added
// tokens are in no probe.
std::string other_way(const ClassRules& rules, const std::shared_ptr<const TokenizerParts>& parts, bool raw_bytes) {
  auto built = std::make_shared<TokenizerParts>();
  built->name = parts->name;
  built->model = parts->model;
  built->pre_tokenizer = make_pre_tokenizer(rules.pre_tokenizer, rules.name, raw_bytes);
  if (!rules.normalizer.is_null()) built->normalizer = make_normalizer(rules.normalizer, rules.name);
  built->finish();
  const Tokenizer of_file(parts), of_class(std::move(built));
  const auto differ = [&](const char* text) {
    std::vector<int32_t> expected, got;
    try {
      of_file.encode_ids(text, expected);
      of_class.encode_ids(text, got);
    } catch (const Error&) {
      return false;  // a vocabulary that cannot cut a probe says so of the texts
    }
    return expected != got;
  };
  for (const char* probe : kTokenizerProbes)
    if (differ(probe)) return "cuts " + dump_json(std::string(probe)) + " into other tokens";
  constexpr const char* kLetterAndAccent = "e\u0301";
  return differ(kLetterAndAccent) ? "treats accents that follow their letters otherwise (NFC)" : "";
}

// Says that transformers reads the file otherwise than forge; empty if it does not.
std::string class_note(const ClassRules& rules, const Json& root, const std::shared_ptr<const TokenizerParts>& parts, bool raw_bytes) {
  const auto part = [&root](const char* key) { return root.value(key, Json()); };
  if (rules.name.empty() || (rules.kind && part("pre_tokenizer") == rules.pre_tokenizer && part("normalizer") == rules.normalizer)) return "";
  const std::string how = rules.kind ? other_way(rules, parts, raw_bytes) : "is for vocabularies of another kind";
  if (how.empty()) return "";
  return parts->name + ": forge reads it as it is; transformers 5 opens it as " + rules.name + ", which " + how +
         (rules.by_model_type ? "" : ", unless tokenizer_config.json has \"tokenizer_class\": \"PreTrainedTokenizerFast\"");
}

}  // namespace

Json whole_tokenizer_json(const TokenizerJson& source) { return whole_json(source, files_beside(source)); }

Tokenizer load_tokenizer_json(const TokenizerJson& source) {
  const text::TokenFiles files = files_beside(source);
  Json root = whole_json(source, files);
  const std::string where = source.name + ": ";
  if (!root.is_object() || find_member(root, "model") == nullptr)
    throw file_fault(source.name, "expected an object with a \"model\"");
  const ClassRules rules = class_rules(root, files.config, model_config(source), source.name);
  take_parts(rules, root);
  auto parts = std::make_shared<TokenizerParts>();
  parts->name = source.name;
  const Json* pre = find_member(root, "pre_tokenizer");
  const bool byte_level = pre != nullptr && ends_byte_level(*pre);
  bool raw_bytes = false;
  parts->model = make_model(root["model"], where + "model", byte_level, &raw_bytes);
  if (pre != nullptr) parts->pre_tokenizer = make_pre_tokenizer(*pre, where + "pre_tokenizer", raw_bytes);
  if (const Json* spec = find_member(root, "normalizer"))
    parts->normalizer = make_normalizer(*spec, where + "normalizer");
  if (const Json* spec = find_member(root, "post_processor"))
    parts->post_processor = make_post_processor(*spec, where + "post_processor");
  if (const Json* spec = find_member(root, "decoder")) {
    parts->decoder = make_decoder(*spec, where + "decoder");
    parts->byte_decoder = is_byte_level_decoder(*spec);
  }
  if (find_member(root, "added_tokens") != nullptr) {
    add_tokens(*parts, array_member(root, "added_tokens", source.name), where + "added_tokens");
  }
  parts->bos_id = named_id(*parts, files, "bos_token");
  parts->eos_id = named_id(*parts, files, "eos_token");
  parts->pad_id = named_id(*parts, files, "pad_token");
  parts->unk_id = named_id(*parts, files, "unk_token");
  if (!parts->unk_id) parts->unk_id = parts->model->unk_id();
  parts->finish();
  Hasher hasher;
  hasher.add(source.tokenizer).add(source.config).add(source.special_tokens_map).add(source.added_tokens);
  if (!rules.taken_parts.is_null()) hasher.add(dump_json(rules.taken_parts));
  parts->content_hash = hasher.hex();
  parts->class_note = class_note(rules, root, parts, raw_bytes);
  return Tokenizer(std::move(parts));
}

}  // namespace forge
