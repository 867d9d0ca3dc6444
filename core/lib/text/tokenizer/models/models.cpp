#include "core/lib/text/tokenizer/models/models.h"

#include "core/lib/base/text.h"
#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/models/bpe.h"

namespace forge::text {

void Model::encode_ids(std::string_view word, std::vector<int32_t>& ids) const {
  thread_local std::vector<WordToken> tokens;
  tokens.clear();
  encode(word, tokens);
  for (const WordToken& token : tokens) ids.push_back(token.id);
}

void Vocabulary::add(const std::string& token, int64_t id, const std::string& where) {
  if (id < 0 || id > kMaxTokenId)
    throw file_fault(where, "token \"{}\" has the id {}, expected 0 to {}", token.substr(0, 80), id,
                     kMaxTokenId);
  const auto [place, fresh] = by_text_.insert_or_assign(token, static_cast<int32_t>(id));
  if (by_id_.size() <= static_cast<size_t>(id)) by_id_.resize(static_cast<size_t>(id) + 1, nullptr);
  const std::string*& owner = by_id_[static_cast<size_t>(id)];
  if (owner != nullptr && *owner != token)
    throw file_fault(where, "the id {} appears twice, for \"{}\" and for \"{}\"", id,
                     owner->substr(0, 80), token.substr(0, 80));
  owner = &place->first;
}

std::optional<int32_t> Vocabulary::id_of(std::string_view token) const {
  const auto found = by_text_.find(token);
  return found == by_text_.end() ? std::nullopt : std::optional(found->second);
}

const std::string* Vocabulary::token_of(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < by_id_.size() ? by_id_[static_cast<size_t>(id)] : nullptr;
}

std::array<int32_t, 256> Vocabulary::byte_ids() const {
  std::array<int32_t, 256> ids;
  for (size_t byte = 0; byte < ids.size(); ++byte)
    ids[byte] = id_of(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  return ids;
}

Vocabulary Vocabulary::from_json(const Json& object, const std::string& where) {
  if (!object.is_object()) throw file_fault(where, "expected an object of tokens and ids");
  Vocabulary vocabulary;
  vocabulary.by_text_.reserve(object.size());
  for (const auto& [token, id] : object.items()) {
    const bool fits =
        id.is_number_integer() && (!id.is_number_unsigned() || id.get<uint64_t>() <= kMaxTokenId);
    vocabulary.add(token, fits ? id.get<int64_t>() : -1, where);
  }
  return vocabulary;
}

std::shared_ptr<const Model> make_model(const Json& spec, const std::string& where, bool byte_level,
                                        bool* raw_bytes) {
  *raw_bytes = false;
  // Files from early versions of the package state no type; it follows from the fields.
  std::string type = string_member(spec, "type", where, "");
  if (type.empty()) {
    const Json* vocab = find_member(spec, "vocab");
    type = find_member(spec, "merges") != nullptr                      ? "BPE"
           : vocab != nullptr && vocab->is_array()                     ? "Unigram"
           : find_member(spec, "continuing_subword_prefix") != nullptr ? "WordPiece"
                                                                       : "WordLevel";
  }
  if (type == "BPE") return make_bpe_from_json(spec, where, byte_level, raw_bytes);
  if (type == "Unigram") return make_unigram(spec, where);
  if (type == "WordPiece") return make_wordpiece(spec, where);
  if (type == "WordLevel") return make_wordlevel(spec, where);
  const std::vector<std::string> names = {"BPE", "Unigram", "WordLevel", "WordPiece"};
  throw file_fault(where, "forge has no model \"{}\"{}", type, did_you_mean(type, names))
      .hint("known: " + join(names, ", "));
}

}  // namespace forge::text
