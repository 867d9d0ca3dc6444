#include "core/lib/text/gguf_tokenizer_json.h"

#include "core/lib/io/json.h"
#include "core/lib/text/tokenizer/added_tokens.h"
#include "core/lib/text/tokenizer/load/gguf_pre.h"

namespace forge {
namespace {

Json added_tokens(const GgufVocabulary& vocabulary) {
  Json tokens = Json::array();
  for (size_t id = 0; id < vocabulary.token_types.size(); ++id) {
    auto type = static_cast<GgufTokenType>(vocabulary.token_types[id]);
    if (type != GgufTokenType::control && type != GgufTokenType::user_defined) continue;
    tokens.push_back(text::token_entry(static_cast<int64_t>(id), vocabulary.tokens[id],
                                       type == GgufTokenType::control));
  }
  return tokens;
}

Json pre_tokenizer(const text::GgufPre& pre) {
  Json steps = Json::array();
  for (const std::string& pattern : pre.patterns)
    steps.push_back({{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
  steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}});
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

Json post_processor(const GgufVocabulary& vocabulary, const text::GgufPre& pre) {
  if (!vocabulary.add_bos.value_or(pre.add_bos) || !vocabulary.bos_id) return nullptr;
  std::string bos = vocabulary.tokens[static_cast<size_t>(*vocabulary.bos_id)];
  Json first{{"SpecialToken", {{"id", bos}, {"type_id", 0}}}};
  Json a{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, b{{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  return {{"type", "TemplateProcessing"},
          {"single", Json::array({first, a})},
          {"pair", Json::array({first, a, b})},
          {"special_tokens", {{bos, {{"id", bos}, {"ids", {*vocabulary.bos_id}}, {"tokens", {bos}}}}}}};
}

// The text is built by hand: an ordered JSON object with 50,000 keys does a linear search for each
// insertion.
std::string model_text(const GgufVocabulary& vocabulary, bool ignore_merges) {
  std::string text = R"({"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,)"
                     R"("end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":)";
  text += ignore_merges ? "true" : "false";
  text += ",\"vocab\":{";
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (id) text += ",";
    text += dump_json(vocabulary.tokens[id]) + ":" + std::to_string(id);
  }
  text += "},\"merges\":[";
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const std::string& merge = vocabulary.merges[i];
    size_t space = merge.find(' ', 1);
    if (i) text += ",";
    text += dump_json(Json::array({merge.substr(0, space), merge.substr(space + 1)}));
  }
  return text + "]}";
}

}  // namespace

std::string gguf_tokenizer_json(const GgufVocabulary& vocabulary) {
  if (vocabulary.model != "gpt2") return "";
  text::GgufPre pre =
      text::gguf_pre_tokenizer(vocabulary.pre.empty() ? "default" : vocabulary.pre, vocabulary.name);
  Json decoder{{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":)" + dump_json(added_tokens(vocabulary)) +
         ",\"normalizer\":null,\"pre_tokenizer\":" + dump_json(pre_tokenizer(pre)) +
         ",\"post_processor\":" + dump_json(post_processor(vocabulary, pre)) + ",\"decoder\":" + dump_json(decoder) +
         ",\"model\":" + model_text(vocabulary, pre.ignore_merges) + "}\n";
}

std::string gguf_tokenizer_config_json(const GgufVocabulary& vocabulary, const Json& chat_template) {
  Json config;
  auto token = [&](const char* key, const std::optional<int64_t>& id) {
    if (id) config[key] = vocabulary.tokens[static_cast<size_t>(*id)];
  };
  token("bos_token", vocabulary.bos_id);
  if (!chat_template.is_null()) config["chat_template"] = chat_template;
  config["clean_up_tokenization_spaces"] = false;
  token("eos_token", vocabulary.eos_id);
  token("pad_token", vocabulary.pad_id);
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  token("unk_token", vocabulary.unk_id);
  return config.dump(2) + "\n";
}

}  // namespace forge
