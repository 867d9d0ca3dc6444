#include "core/run/export_files.h"

#include <algorithm>
#include <array>

#include "core/lib/base/file.h"
#include "core/lib/io/gguf.h"
#include "core/lib/io/python_json.h"
#include "core/lib/text/add_tokens.h"
#include "core/lib/text/gguf_tokenizer_json.h"
#include "core/model/families/config_spec.h"
#include "core/model/families/described_family.h"
#include "core/run/model_text.h"
#include "core/run/staging.h"

namespace forge {
namespace {

constexpr int64_t kLargestTokenizerFile = int64_t{256} << 20;
constexpr std::array kTokenizerFiles{"tokenizer.json",          "tokenizer.model",   "tokenizer_config.json",
                                     "special_tokens_map.json", "added_tokens.json", "vocab.json",
                                     "merges.txt",              "chat_template.jinja"};
// Processor files of models with towers: they say how images become the model's input.
constexpr std::array kProcessorFiles{"processor_config.json", "preprocessor_config.json", "video_preprocessor_config.json"};
// The file in which processors of older transformers versions keep the template. It is valid only
// with the model's own template.
constexpr const char* kProcessorTemplate = "chat_template.json";
constexpr const char* kToolTemplate = "additional_chat_templates/tool_use.jinja";

void copy_if_there(const std::string& from, const std::string& folder, const char* name) {
  std::string path = from + "/" + name;
  if (file_exists(path))
    write_file_durably(folder + "/" + name, read_file(path, kLargestTokenizerFile, ErrorKind::environment));
}

Json read_python_json(const std::string& path) {
  return parse_python_json(read_file(path, kLargestTokenizerFile, ErrorKind::environment), path);
}

// Returns transformers' name of a type: "float32", "bfloat16" or "float16".
std::string hub_dtype(const std::string& dtype) {
  if (dtype == "bf16") return "bfloat16";
  return dtype == "f16" ? "float16" : "float32";
}

void copy_tool_template(const std::string& model_path, const std::string& folder) {
  if (!file_exists(model_path + "/" + kToolTemplate)) return;
  make_directories(folder + "/additional_chat_templates");
  copy_if_there(model_path, folder, kToolTemplate);
}

// Returns the templates in the form of tokenizer_config.json: a text, or a list of named ones; null
// if there is none.
Json templates_of(const Gguf& gguf) {
  const std::string text = gguf.get_string("tokenizer.chat_template", "");
  const std::string tool_use = gguf.get_string("tokenizer.chat_template.tool_use", "");
  if (text.empty()) return nullptr;
  if (tool_use.empty()) return text;
  return {{{"name", "default"}, {"template", text}}, {{"name", "tool_use"}, {"template", tool_use}}};
}

void write_gguf_tokenizer(const std::string& model_path, const std::vector<std::string>& added, const std::string& folder) {
  Gguf gguf(model_path);
  GgufVocabulary vocabulary = gguf_vocabulary(gguf);
  add_tokens(vocabulary, added);
  std::string json = gguf_tokenizer_json(vocabulary);
  if (json.empty()) return;
  write_file_durably(folder + "/tokenizer.json", json);
  write_file_durably(folder + "/tokenizer_config.json",
                     gguf_tokenizer_config_json(vocabulary, templates_of(gguf)));
}

// Adds tokens to tokenizer.json, and to tokenizer_config.json where it lists added tokens.
void add_to_tokenizer_files(const std::vector<std::string>& added, const std::string& folder) {
  if (added.empty()) return;
  const std::string path = folder + "/tokenizer.json", config_path = folder + "/tokenizer_config.json";
  const std::string text = with_added_tokens(read_tokenizer_json(folder), added);
  write_file_durably(path, text);
  if (!file_exists(config_path)) return;
  Json config = read_python_json(config_path);
  if (!config.is_object() || !config.contains("added_tokens_decoder")) return;
  if (!config["added_tokens_decoder"].is_object())
    throw Error(ErrorKind::environment, config_path + ": added_tokens_decoder is not an object, so no token can be added")
        .hint("download the file again from the model's own repository");
  const Json tokenizer = parse_python_json(text, path);
  for (Json token : tokenizer.at("added_tokens")) {
    const std::string id = std::to_string(token.at("id").get<int64_t>());
    token.erase("id");
    if (!config["added_tokens_decoder"].contains(id)) config["added_tokens_decoder"][id] = token;
  }
  write_file_durably(config_path, dump_python_json(config, 2) + "\n");
}

// Sets the language model's own settings where a class with towers wraps it.
void say_text_config(const ModelSpec& spec, const std::string& dtype, Json& text) {
  if (text.erase("torch_dtype") + text.erase("dtype") > 0) text["dtype"] = hub_dtype(dtype);
  text["tie_word_embeddings"] = spec.tie_word_embeddings;
  if (spec.base_vocab_size > 0) text["vocab_size"] = spec.vocab_size;
}

void say_score_head(const ModelSpec& spec, Json& config) {
  config["architectures"] = {scoring_architecture(spec)};
  config["id2label"] = {{"0", "LABEL_0"}};
  config["label2id"] = {{"LABEL_0", 0}};
  config["tie_word_embeddings"] = false;
  config["pad_token_id"] = padding_of_scores(spec);
}

}  // namespace

void write_tokenizer_files(const std::string& model_path, const TemplateChoice& choice, const std::string& folder) {
  if (is_directory(model_path))
    for (const char* name : kTokenizerFiles) copy_if_there(model_path, folder, name);
  else
    write_gguf_tokenizer(model_path, choice.added_tokens, folder);
  if (is_directory(model_path)) add_to_tokenizer_files(choice.added_tokens, folder);
  const bool own = choice.name == "auto";
  if (own) copy_tool_template(model_path, folder);
  if (own && choice.variables.empty()) return copy_if_there(model_path, folder, kProcessorTemplate);
  const auto write = [&](const TemplateSource& source, const std::string& path) {
    write_file_durably(path, with_variables(source.text, choice.variables));
  };
  const auto source = own ? own_template(model_path, /*with_tools=*/false) : named_template(choice.name);
  if (!source) return;
  write(*source, folder + "/chat_template.jinja");
  const auto tool_use = own ? own_template(model_path, /*with_tools=*/true) : std::nullopt;
  if (!tool_use || tool_use->text == source->text) return;
  make_directories(folder + "/additional_chat_templates");
  write(*tool_use, folder + "/" + kToolTemplate);
}

int64_t padding_of_scores(const ModelSpec& spec) {
  const auto ends_text = [&](int64_t id) { return std::ranges::count(spec.eos_token_ids, id) > 0; };
  int64_t pad = spec.pad_token_id;
  if (pad < 0 || ends_text(pad)) pad = spec.bos_token_id;
  for (int64_t id = 0; pad < 0 || ends_text(pad); ++id) pad = id;
  return pad;
}

void copy_tokenizer_files(const std::string& from, const std::string& folder) {
  if (!file_exists(from + "/tokenizer_config.json")) return;
  // The template is copied together with the files it came from.
  remove_tree(folder + "/chat_template.jinja");
  if (file_exists(from + "/chat_template.jinja")) remove_tree(folder + "/" + kProcessorTemplate);
  remove_tree(folder + "/additional_chat_templates");
  for (const char* name : kTokenizerFiles) copy_if_there(from, folder, name);
  copy_if_there(from, folder, kProcessorTemplate);
  copy_tool_template(from, folder);
}

void write_generation_ends(const std::string& folder) {
  if (!file_exists(folder + "/tokenizer.json") && !file_exists(folder + "/tokenizer.model")) return;
  const std::optional<int32_t> end = end_of_turn(open_model_text(folder, {}));
  if (!end) return;
  const std::string path = folder + "/generation_config.json", config_path = folder + "/config.json";
  Json generation = Json::object();
  if (file_exists(path))
    generation = read_python_json(path);
  else
    for (const Json config = read_python_json(config_path); const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
      if (config.contains(key) && !config[key].is_null()) generation[key] = config[key];
  if (!generation.is_object()) return;
  const Json stated = generation.value("eos_token_id", Json());
  Json ends = stated.is_array() ? stated : stated.is_null() ? Json::array() : Json::array({stated});
  if (std::find(ends.begin(), ends.end(), *end) != ends.end()) return;
  ends.push_back(*end);
  generation["eos_token_id"] = ends;
  write_file_durably(path, dump_python_json(generation, 2) + "\n");
}

void write_model_config(const ModelConfig& model, const ModelSpec& spec, const std::string& dtype,
                        const std::string& folder) {
  Json config;
  if (is_directory(model.path)) {
    config = model_config(model);
    for (const char* of_the_base : {"torch_dtype", "quantization_config"}) config.erase(of_the_base);
    config["dtype"] = hub_dtype(dtype);
    config["tie_word_embeddings"] = spec.tie_word_embeddings;
    // A class with towers may have the language model's settings beside its own.
    const bool inside = !spec.wrapper.empty() && config.contains("text_config") && config["text_config"].is_object();
    if (inside) say_text_config(spec, dtype, config["text_config"]);
    if (spec.base_vocab_size > 0 && !inside) config["vocab_size"] = spec.vocab_size;
    for (const char* name : kProcessorFiles) copy_if_there(model.path, folder, name);
    if (model.init == ModelInit::file) copy_if_there(model.path, folder, "generation_config.json");
  } else {
    config = config_of_spec(spec);
    config["dtype"] = hub_dtype(dtype);
  }
  if (spec.score_head) say_score_head(spec, config);
  if (!spec.described.empty()) write_file_durably(folder + "/" + kFamilyFile, spec.described);
  write_file_durably(folder + "/config.json", dump_python_json(config, 2) + "\n");
}

}  // namespace forge
