#include "core/lib/text/tokenizer/load/class_rules.h"

#include <initializer_list>
#include <string_view>

#include "core/lib/base/text.h"
#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/scanner.h"

namespace forge::text {
namespace {

constexpr const char* kFile = "TokenizersBackend";  // the class that reads the file as it is

// TOKENIZER_MAPPING_NAMES of transformers 5.17 for model types with a class. `only`: that class
// counts, whatever tokenizer_config.json names (MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS).
// tests/parity/make_tokenizer_class_goldens.py asks transformers about each.
struct OfModel {
  std::string_view model_type, name;
  bool only = false;
};
constexpr OfModel kOfModels[] = {
    {"bart", "RobertaTokenizer"},       {"cohere", "CohereTokenizer"},   {"cohere2", "CohereTokenizer"},
    {"deepseek_v2", kFile, true},       {"deepseek_v3", kFile, true},    {"ernie4_5", kFile, true},
    {"gemma", "GemmaTokenizer"},
    {"gemma2", "GemmaTokenizer"},       {"gemma3", "GemmaTokenizer"},    {"gemma3_text", "GemmaTokenizer"},
    {"glm", kFile},                     {"glm4", kFile},                 {"gpt2", "GPT2Tokenizer"},
    {"gpt_neox", "GPTNeoXTokenizer"},   {"granite", kFile},              {"granitemoe", kFile},
    {"granitemoehybrid", kFile},        {"gptj", "GPT2Tokenizer"},       {"opt", "GPT2Tokenizer"},
    {"mistral", kFile},                 {"mistral3", kFile},             {"ministral", kFile},
    {"mixtral", kFile},                 {"nemotron", kFile, true},       {"olmo", "GPTNeoXTokenizer"},
    {"olmo2", kFile},                   {"olmo3", kFile},                {"phi", "GPT2Tokenizer"},
    {"phi3", kFile, true},              {"phimoe", kFile, true},         {"qwen2", "Qwen2Tokenizer", true},
    {"qwen2_moe", "Qwen2Tokenizer"},    {"qwen3", "Qwen2Tokenizer"},     {"qwen3_moe", "Qwen2Tokenizer"},
    {"stablelm", kFile},                {"starcoder2", "GPT2Tokenizer"},
};

std::string without_fast(std::string name) {
  if (ends_with(name, "Fast")) name.resize(name.size() - 4);
  return name;
}

std::string text_of(const Json& object, const char* key) {
  const Json* found = find_member(object, key);
  return found != nullptr && found->is_string() ? found->get<std::string>() : "";
}

struct Choice {
  std::string name;
  bool by_model_type = false;
};

// Returns the class that AutoTokenizer takes; kFile for the file itself.
Choice class_of(const Json& config, const Json& model_config) {
  std::string stated = text_of(config, "tokenizer_class");
  if (stated.empty()) stated = text_of(model_config, "tokenizer_class");
  stated = without_fast(std::move(stated));
  const std::string model_type = text_of(model_config, "model_type");
  for (const OfModel& known : kOfModels) {
    if (known.model_type != model_type || (!stated.empty() && !known.only && known.name != kFile)) continue;
    return {std::string(known.name), known.only};
  }
  return {stated.empty() ? kFile : stated};
}

Json byte_level(bool add_prefix_space, bool use_regex = true) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", add_prefix_space}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

Json sequence(Json steps) { return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}}; }

// True if a step of the pre-tokenizer or decoder works on bytes.
bool on_bytes(const Json& root) {
  for (const auto& [part, list] : {std::pair{"pre_tokenizer", "pretokenizers"}, {"decoder", "decoders"}})
    if (const Json* step = find_member(root, part); step != nullptr && step->is_object()) {
      if (text_of(*step, "type") == "ByteLevel") return true;
      if (const Json* steps = find_member(*step, list); steps != nullptr && steps->is_array())
        for (const Json& inner : *steps)
          if (inner.is_object() && text_of(inner, "type") == "ByteLevel") return true;
    }
  return false;
}

const Json& model_of(const Json& root) {
  static const Json none = Json::object();
  const Json* model = root.is_object() ? find_member(root, "model") : nullptr;
  return model != nullptr && model->is_object() ? *model : none;
}

bool is_true(const Json& object, const char* key) {
  const Json* found = find_member(object, key);
  return found != nullptr && found->is_boolean() && found->get<bool>();
}

// The classes of SentencePiece's vocabularies. `scheme` is the Metaspace's: LlamaTokenizer puts a
// blank before each section between added tokens if `legacy` says so, else before the first one.
void sentencepiece_class(ClassRules& rules, const Json& config, const std::string& where) {
  Json decoder;
  if (rules.name == "GemmaTokenizer") {
    rules.normalizer = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
    rules.pre_tokenizer = {{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithPrevious"}, {"invert", false}};
    decoder = sentencepiece_decoder(false);
  } else {
    const bool blank = bool_member(config, "add_prefix_space", where, true);
    const bool always = rules.name == "LlamaTokenizer" && bool_member(config, "legacy", where, false);
    rules.pre_tokenizer = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", !blank ? "never" : always ? "always" : "first"}, {"split", false}};
    decoder = sentencepiece_decoder(blank || rules.name == "CodeLlamaTokenizer");
  }
  if (!rules.kind) return;
  rules.taken_parts = {{"normalizer", rules.normalizer}, {"pre_tokenizer", rules.pre_tokenizer}, {"decoder", decoder}};
  rules.taken_parts["model"] = {{"fuse_unk", true}, {"byte_fallback", true}, {"ignore_merges", false}};
}

// Sets add_prefix_space of every ByteLevel step.
void set_prefix(Json& step, bool add) {
  if (text_of(step, "type") == "ByteLevel") step["add_prefix_space"] = add;
  if (const auto steps = step.find("pretokenizers"); steps != step.end() && steps->is_array())
    for (Json& inner : *steps)
      if (inner.is_object()) set_prefix(inner, add);
}

void byte_level_class(ClassRules& rules, const Json& root, const Json& config, const std::string& where) {
  const bool prefix = bool_member(config, "add_prefix_space", where, false);
  if (rules.name == "Qwen2Tokenizer") {
    const Json split = {{"type", "Split"},
                        {"pattern", {{"Regex", kQwen2Pattern}}},
                        {"behavior", "Isolated"},
                        {"invert", false}};
    rules.pre_tokenizer = sequence({split, byte_level(prefix, false)});
  } else if (rules.name == "CohereTokenizer") {
    rules.pre_tokenizer = sequence({{{"type", "Digits"}, {"individual_digits", true}}, byte_level(prefix)});
  } else {
    rules.pre_tokenizer = byte_level(prefix);
  }
  if (rules.name == "Qwen2Tokenizer" || rules.name == "CohereTokenizer" || rules.name == "GPTNeoXTokenizer") rules.normalizer = {{"type", "NFC"}};
  const Json* pre = find_member(root, "pre_tokenizer");
  if (!rules.kind || pre == nullptr || !pre->is_object() || find_member(config, "add_prefix_space") == nullptr) return;
  Json changed = *pre;
  set_prefix(changed, prefix);
  if (changed != *pre) rules.taken_parts = {{"pre_tokenizer", std::move(changed)}};
}

bool one_of(const std::string& name, std::initializer_list<std::string_view> names) {
  for (const std::string_view known : names)
    if (name == known) return true;
  return false;
}

}  // namespace

Json sentencepiece_decoder(bool strips) {
  Json steps = {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}}, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (strips) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

ClassRules class_rules(const Json& root, const Json& config, const Json& model_config, const std::string& where) {
  ClassRules rules;
  const auto [name, by_model_type] = class_of(config, model_config);
  const bool bpe = text_of(model_of(root), "type") == "BPE", bytes = on_bytes(root);
  if (one_of(name, {"LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer"})) {
    rules.name = name, rules.by_model_type = by_model_type;
    rules.kind = bpe && !bytes && is_true(model_of(root), "byte_fallback");
    sentencepiece_class(rules, config, where);
  } else if (one_of(name, {"GPT2Tokenizer", "GPTNeoXTokenizer", "RobertaTokenizer", "BartTokenizer", "CodeGenTokenizer", "CohereTokenizer", "Qwen2Tokenizer"})) {
    rules.name = name, rules.by_model_type = by_model_type;
    rules.kind = bpe && bytes;
    byte_level_class(rules, root, config, where);
  }
  return rules;
}

void take_parts(const ClassRules& rules, Json& root) {
  for (const auto& [part, value] : rules.taken_parts.items()) {
    if (part == "model")
      root["model"].update(value);
    else
      root[part] = value;
  }
}

}  // namespace forge::text
