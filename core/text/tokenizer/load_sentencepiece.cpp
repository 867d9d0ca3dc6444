// SentencePiece model files, read and run by libsentencepiece, with added tokens around it as Hugging Face
// does it.
#include <sentencepiece_processor.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/text/tokenizer/json_fields.h"
#include "core/text/tokenizer/parts.h"

namespace forge {
namespace {

using namespace text;

constexpr int64_t kLargestModel = 64 << 20;

class SentencePiece : public Model {
 public:
  SentencePiece(const std::string& content, const std::string& where) : where_(where) {
    const auto status = processor_.LoadFromSerializedProto(content);
    if (!status.ok()) {
      throw Error(ErrorKind::environment, where + ": not a SentencePiece model: " + status.ToString());
    }
    for (int id = 0; id < processor_.GetPieceSize(); ++id)
      vocabulary_.add(processor_.IdToPiece(id), id, where);
  }
  const sentencepiece::SentencePieceProcessor& processor() const { return processor_; }

  void encode(std::string_view word, std::vector<WordToken>& tokens) const override {
    const auto text = processor_.EncodeAsImmutableProto({word.data(), word.size()});
    for (const auto& piece : text.pieces()) {
      tokens.push_back({static_cast<int32_t>(piece.id()), static_cast<int32_t>(piece.begin()),
                        static_cast<int32_t>(piece.end())});
    }
  }
  std::optional<int32_t> id_of(std::string_view token) const override { return vocabulary_.id_of(token); }
  const std::string* token_of(int32_t id) const override { return vocabulary_.token_of(id); }
  int64_t max_id() const override { return vocabulary_.max_id(); }
  int64_t size() const override { return vocabulary_.size(); }
  std::optional<int32_t> unk_id() const override {
    return processor_.unk_id() < 0 ? std::nullopt : std::optional(processor_.unk_id());
  }

 private:
  std::string where_;
  sentencepiece::SentencePieceProcessor processor_;
  Vocabulary vocabulary_;
};

Json decoder_of(const sentencepiece::SentencePieceProcessor& processor) {
  Json steps = {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                {{"type", "ByteFallback"}},
                {{"type", "Fuse"}}};
  // Whether the model puts a space in front is in its protobuf only; it shows in what it does.
  const std::vector<std::string> probe = processor.EncodeAsPieces("a");
  if (!probe.empty() && starts_with(probe[0], "▁")) {
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  return {{"type", "Sequence"}, {"decoders", steps}};
}

std::optional<int32_t> valid(int id) { return id < 0 ? std::nullopt : std::optional(id); }

// tokenizer_config.json: {"added_tokens_decoder": {"32000": {"content": "<|im_start|>", "special": true,
// …}}}.
void add_config_tokens(TokenizerParts& parts, const Json& config, const std::string& where) {
  const Json* added = find_member(config, "added_tokens_decoder");
  if (added == nullptr || !added->is_object()) return;
  for (const auto& [key, spec] : added->items()) {
    AddedToken token;
    const bool digits =
        !key.empty() && key.size() < 9 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!digits)
      throw Error(ErrorKind::environment,
                  where + ": added_tokens_decoder: expected an id, found \"" + key + "\"");
    token.id = std::stoi(key);
    token.content = string_member(spec, "content", where);
    token.special = bool_member(spec, "special", where, false);
    token.normalized = bool_member(spec, "normalized", where, !token.special);
    token.single_word = bool_member(spec, "single_word", where, false);
    token.lstrip = bool_member(spec, "lstrip", where, false);
    token.rstrip = bool_member(spec, "rstrip", where, false);
    const auto known = parts.id_of(token.content);
    if (known && *known != token.id) {
      throw Error(ErrorKind::environment, where + ": added_tokens_decoder: \"" + token.content +
                                              "\" has the id " + key + " here and " + std::to_string(*known) +
                                              " in the model");
    }
    if (!parts.added.contains(token.id)) parts.add_token(token);
  }
}

}  // namespace

Tokenizer load_sentencepiece(const std::string& path, const std::string& config_text) {
  const std::string content = read_file(path, kLargestModel, ErrorKind::environment);
  const size_t slash = path.rfind('/');
  const std::string config_name =
      (slash == std::string::npos ? "" : path.substr(0, slash + 1)) + "tokenizer_config.json";
  const Json config =
      config_text.empty() ? Json::object() : parse_json(config_text, config_name, ErrorKind::environment, kTokenizerConfigLimits);
  auto parts = std::make_shared<TokenizerParts>();
  parts->name = path;
  const auto model = std::make_shared<SentencePiece>(content, path);
  parts->model = model;
  const auto& processor = model->processor();
  parts->decoder = make_decoder(decoder_of(processor), path);
  add_config_tokens(*parts, config, config_name);
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    if ((!processor.IsControl(id) && !processor.IsUnknown(id)) || parts->added.contains(id)) continue;
    AddedToken token;
    token.content = processor.IdToPiece(id);
    token.id = id;
    token.special = true;
    token.normalized = false;
    parts->add_token(token);
  }
  parts->bos_id = valid(processor.bos_id());
  parts->eos_id = valid(processor.eos_id());
  parts->pad_id = valid(processor.pad_id());
  parts->unk_id = valid(processor.unk_id());
  for (auto [key, id] : {std::pair{"bos_token", &parts->bos_id},
                         {"eos_token", &parts->eos_id},
                         {"pad_token", &parts->pad_id}}) {
    const Json* named = find_member(config, key);
    if (named != nullptr && named->is_object()) named = find_member(*named, "content");
    if (named == nullptr || !named->is_string()) continue;
    if (const auto found = parts->id_of(named->get<std::string>())) *id = found;
  }
  std::vector<int32_t> before, behind;
  if (bool_member(config, "add_bos_token", config_name, parts->bos_id.has_value()) && parts->bos_id) {
    before.push_back(*parts->bos_id);
  }
  if (bool_member(config, "add_eos_token", config_name, false) && parts->eos_id)
    behind.push_back(*parts->eos_id);
  parts->post_processor = make_template(before, behind);
  parts->finish();
  parts->content_hash = Hasher().add(std::string_view(content)).add(std::string_view(config_text)).hex();
  return Tokenizer(std::move(parts));
}

}  // namespace forge
