#include "core/model/families/wrapper.h"

#include <algorithm>
#include <set>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/lib/io/encode.h"
#include "core/lib/io/model_file.h"
#include "core/lib/io/wrapped_file.h"
#include "core/model/families/config_keys.h"
#include "core/model/families/modules.h"
#include "core/model/families/stored_config.h"
#include "core/model/families/stored_file.h"
#include "core/model/stored/dequantised_file.h"

namespace forge {
namespace {

constexpr std::string_view kModel = "model.";
constexpr int64_t kMostSections = 1 << 10;  // frequencies of a section

// Renamings of transformers' conversion_mapping.py: "llava" and "LlavaModel".
const std::vector<Renaming> kOfLlava{{"language_model.lm_head.", "lm_head."},
                                     {"language_model.model.", "model.language_model."},
                                     {"language_model.", "model.language_model."},
                                     {"vision_tower.", "model.vision_tower."},
                                     {"multi_modal_projector.", "model.multi_modal_projector."}};
// "Qwen2VLForConditionalGeneration".
const std::vector<Renaming> kOfQwen2Vl{{"model.layers.", "model.language_model.layers."},
                                       {"model.embed_tokens.", "model.language_model.embed_tokens."},
                                       {"model.norm.", "model.language_model.norm."},
                                       {"visual.", "model.visual."}};
// "qwen2_audio", as Voxtral was published; transformers 5 writes "model." twice.
const std::vector<Renaming> kOfQwen2Audio{{"language_model.lm_head.", "lm_head."},
                                          {"language_model.model.model.", "model.language_model."},
                                          {"language_model.model.", "model.language_model."},
                                          {"audio_tower.", "model.audio_tower."},
                                          {"multi_modal_projector.", "model.multi_modal_projector."}};
// "GPTNeoXForCausalLM" and "nemotron_h".
const std::vector<Renaming> kAlone{{"embed_out.", "lm_head."}, {"backbone.", "model."}};

// "paddleocr_vl".
const std::vector<Renaming> kOfPaddleOcr{{"mlp_AR.", "model.projector."},
                                         {"visual.", "model.visual."},
                                         {"model.layers.", "model.language_model.layers."},
                                         {"model.embed_tokens.", "model.language_model.embed_tokens."},
                                         {"model.norm.", "model.language_model.norm."}};

// Windows that Qwen2's and Qwen3's own classes have.
const std::vector<std::string> kWindowKeys{"use_sliding_window", "sliding_window", "max_window_layers", "layer_types"};

const std::vector<std::string> kQwenImages{"vision_config", "image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"};

const std::vector<std::string> kIdeficsImages{"vision_config", "image_token_id", "scale_factor"};
// The language model's modules in Idefics 3 and SmolVLM.
const OuterModules kTextModel{.embedding = "model.text_model.embed_tokens", .layers = "model.text_model.layers.", .final_norm = "model.text_model.norm"};

// Gemma 4's classes also hear.
const std::vector<std::string> kGemma4Settings{"vision_config",  "audio_config",    "boi_token_id",  "eoi_token_id", "image_token_id",
                                               "video_token_id", "boa_token_id",    "eoa_token_id",  "eoa_token_index", "audio_token_id",
                                               "vision_soft_tokens_per_image"};
// Settings of Gemma 4 that the class of one model without towers does not have.
const std::vector<std::string> kGemma4Unread{"hidden_size_per_layer_input", "vocab_size_per_layer_input", "enable_moe_block", "num_experts",
                                             "top_k_experts", "moe_intermediate_size"};

const OuterModules kLlama4{.embedding = "language_model.model.embed_tokens",
                           .layers = "language_model.model.layers.",
                           .final_norm = "language_model.model.norm",
                           .head = "language_model.lm_head"};

const std::vector<Renaming>& older_names_of(const ModelSpec& spec) {
  const Wrapper* wrapper = wrapper_of(spec);
  return wrapper ? wrapper->older_names : kAlone;
}

// Returns the renaming that applies to a name in a file; null for a current name.
const Renaming* renaming_of(const ModelSpec& spec, const std::string& name) {
  for (const Renaming& renaming : older_names_of(spec))
    if (starts_with(name, renaming.older)) return &renaming;
  return nullptr;
}

class CurrentNames : public WrappedFile {
 public:
  CurrentNames(const ModelSpec& spec, std::unique_ptr<TensorFile> file, const std::string& prefix) : WrappedFile(std::move(file)) {
    tensors_ = file_->tensors();
    for (TensorInfo& tensor : tensors_)
      if (starts_with(tensor.name, prefix)) tensor.name = prefix + current_name(spec, tensor.name.substr(prefix.size()));
  }

 protected:
  bool makes(size_t) const override { return false; }
  void make_rows(size_t, int64_t, int64_t, float*) const override {}
};

// Returns the beginning of the language model's names: "model.language_model."; empty without
// towers.
std::string language_model_prefix(const ModelSpec& spec) {
  const Wrapper* wrapper = wrapper_of(spec);
  if (!wrapper) return "";
  const std::string layers = wrapper->modules.layers;
  return layers.substr(0, layers.size() - std::string_view("layers.").size());
}

// Copies a member of `from` into `text` if it has a value.
void take(const Json& from, const char* key, Json& text) {
  if (const auto found = from.find(key); found != from.end() && !found->is_null()) text[key] = *found;
}

bool is_set(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && !found->is_null();
}

// Returns Qwen2's model inside Qwen2-VL and Qwen2.5-VL.
WrappedText qwen2_text(const char* type) {
  return {.type = type, .family = "qwen2", .gguf_architecture = "qwen2vl", .sections = {16, 24, 24}, .whole_sections = true};
}

// Return the rows: of classes with the names of LLaVA's modules, of Qwen's, and of others.
std::vector<Wrapper> named_like_llava() {
  return {
      {.name = "gemma3",
       .architecture = "Gemma3ForConditionalGeneration",
       .texts = {{.type = "gemma3_text", .family = "gemma3_text", .unread = {"final_logit_softcapping"}}},
       .image_settings = {"vision_config", "mm_tokens_per_image", "boi_token_index", "eoi_token_index", "image_token_index"},
       .older_names = kOfLlava},
      {.name = "mistral3",
       .architecture = "Mistral3ForConditionalGeneration",
       .texts = {{.type = "mistral", .family = "mistral"}, {.type = "ministral3", .family = "ministral3"}, {.type = "mistral4", .family = "mistral4"}},
       .image_settings = {"vision_config", "image_token_index", "projector_hidden_act", "vision_feature_layer",
                          "multimodal_projector_bias", "spatial_merge_size"},
       .older_names = kOfLlava},
      {.name = "internvl",
       .architecture = "InternVLForConditionalGeneration",
       .texts = {{.type = "qwen2", .family = "qwen2"},
                 {.type = "qwen3", .family = "qwen3"},
                 {.type = "qwen3_moe", .family = "qwen3_moe"},
                 {.type = "llama", .family = "llama"}},
       .image_settings = {"vision_config", "image_token_id", "image_seq_length", "downsample_ratio", "projector_hidden_act", "vision_feature_layer",
                          "vision_feature_select_strategy"},
       .older_names = kOfLlava},
      {.name = "llava",
       .architecture = "LlavaForConditionalGeneration",
       .texts = {{.type = "llama", .family = "llama"}, {.type = "mistral", .family = "mistral"}, {.type = "qwen2", .family = "qwen2"}},
       .image_settings = {"vision_config", "image_token_index", "image_seq_length", "projector_hidden_act", "vision_feature_layer",
                          "vision_feature_select_strategy", "multimodal_projector_bias"},
       .older_names = kOfLlava,
       .tied = false},
      {.name = "voxtral",
       .architecture = "VoxtralForConditionalGeneration",
       .texts = {{.type = "llama", .family = "llama"}},
       .image_settings = {"audio_config", "audio_token_id", "projector_hidden_act"},
       .towers = {"audio_tower", "multi_modal_projector"},
       .older_names = kOfQwen2Audio,
       .tied = false}};
}

std::vector<Wrapper> of_qwen() {
  return {
      {.name = "qwen2_vl",
       .architecture = "Qwen2VLForConditionalGeneration",
       .texts = {qwen2_text("qwen2_vl_text")},
       .image_settings = kQwenImages,
       .towers = {"visual"},
       .older_names = kOfQwen2Vl,
       .tied = false,
       .flat = true},
      {.name = "qwen2_5_vl",
       .architecture = "Qwen2_5_VLForConditionalGeneration",
       .texts = {qwen2_text("qwen2_5_vl_text")},
       .image_settings = kQwenImages,
       .towers = {"visual"},
       .older_names = kOfQwen2Vl,
       .tied = false,
       .flat = true},
      {.name = "qwen3_vl",
       .architecture = "Qwen3VLForConditionalGeneration",
       .texts = {{.type = "qwen3_vl_text", .family = "qwen3", .unread = kWindowKeys, .gguf_architecture = "qwen3vl", .sections = {24, 20, 20}, .image_layers = 3}},
       .image_settings = kQwenImages,
       .towers = {"visual"},
       .tied = false},
      {.name = "qwen3_vl_moe",
       .architecture = "Qwen3VLMoeForConditionalGeneration",
       .texts = {{.type = "qwen3_vl_moe_text",
                  .family = "qwen3_moe",
                  .unread = {"use_sliding_window", "sliding_window", "max_window_layers", "layer_types", "norm_topk_prob", "output_router_logits"},
                  .gguf_architecture = "qwen3vlmoe",
                  .sections = {24, 20, 20},
                  .image_layers = 3,
                  .joined_experts = true,
                  .fixed = {{"norm_topk_prob", true}}}},
       .image_settings = kQwenImages,
       .towers = {"visual"},
       .tied = false},
      {.name = "qwen3_5",
       .architecture = "Qwen3_5ForConditionalGeneration",
       .texts = {{.type = "qwen3_5_text", .family = "qwen3_5_text", .sections = {11, 11, 10}}},
       .image_settings = kQwenImages,
       .towers = {"visual"},
       .tied = false},
      {.name = "qwen3_5_moe",
       .architecture = "Qwen3_5MoeForConditionalGeneration",
       .texts = {{.type = "qwen3_5_moe_text", .family = "qwen3_5_moe_text", .sections = {11, 11, 10}}},
       .image_settings = kQwenImages,
       .towers = {"visual"},
       .tied = false}};
}

std::vector<Wrapper> of_gemma4() {
  return {{.name = "gemma4",
           .architecture = "Gemma4ForConditionalGeneration",
           .texts = {{.type = "gemma4_text", .family = "gemma4_text"}},
           .image_settings = kGemma4Settings,
           .towers = {"vision_tower", "embed_vision", "audio_tower", "embed_audio"}},
          {.name = "gemma4_unified",
           .architecture = "Gemma4UnifiedForConditionalGeneration",
           .texts = {{.type = "gemma4_unified_text",
                      .family = "gemma4_text",
                      .unread = kGemma4Unread,
                      .fixed = {{"hidden_size_per_layer_input", 0}}}},
           .image_settings = kGemma4Settings,
           .towers = {"embed_vision", "vision_embedder", "embed_audio"}}};
}

std::vector<Wrapper> of_others() {
  return {
      {.name = "lfm2_vl",
       .architecture = "Lfm2VlForConditionalGeneration",
       .texts = {{.type = "lfm2", .family = "lfm2"}},
       .image_settings = {"vision_config", "image_token_id", "projector_hidden_act", "projector_hidden_size", "projector_bias", "projector_use_layernorm",
                          "downsample_factor"},
       .modules = {.embedding = "model.language_model.embed_tokens",
                   .layers = "model.language_model.layers.",
                   .final_norm = "model.language_model.embedding_norm"}},
      {.name = "paddleocr_vl",
       .architecture = "PaddleOCRVLForConditionalGeneration",
       .texts = {{.type = "paddleocr_vl_text",
                  .family = "llama",
                  .unread = {"attention_bias", "mlp_bias", "pretraining_tp", "attention_dropout"},
                  .sections = {16, 24, 24}, .whole_sections = true,
                  .spelled = {{"use_bias", {"attention_bias", "mlp_bias"}}}}},
       .image_settings = {"vision_config", "image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"},
       .towers = {"visual", "projector"},
       .older_names = kOfPaddleOcr,
       .flat = true},
      {.name = "glm4v",
       .architecture = "Glm4vForConditionalGeneration",
       .texts = {{.type = "glm4v_text",
                  .family = "glm4",
                  .sections = {8, 12, 12}, .whole_sections = true,
                  .fixed = {{"attention_bias", true}}, .equal_heads = true, .whole_turns = true}},
       .image_settings = {"vision_config", "image_token_id", "video_token_id", "image_start_token_id", "image_end_token_id", "video_start_token_id",
                          "video_end_token_id"},
       .towers = {"visual"},
       .tied = false},
      {.name = "llama4",
       .architecture = "Llama4ForConditionalGeneration",
       .texts = {{.type = "llama4_text", .family = "llama4_text"}},
       .image_settings = {"vision_config", "boi_token_index", "eoi_token_index", "image_token_index"},
       .towers = {"vision_model", "multi_modal_projector"},
       .modules = kLlama4,
       .tied = false},
      {.name = "idefics3",
       .architecture = "Idefics3ForConditionalGeneration",
       .texts = {{.type = "llama", .family = "llama"}},
       .image_settings = kIdeficsImages,
       .towers = {"vision_model", "connector"},
       .modules = kTextModel,
       .tied = false},
      {.name = "smolvlm",
       .architecture = "SmolVLMForConditionalGeneration",
       .texts = {{.type = "llama", .family = "llama"}},
       .image_settings = kIdeficsImages,
       .towers = {"vision_model", "connector"},
       .modules = kTextModel,
       .tied = false}};
}

// Returns the language model of a text_config. Throws Error(job) for one of an unknown type.
const WrappedText& text_of_type(const Wrapper& wrapper, const Json& stated, const std::string& name) {
  const Json type = stated.value("model_type", Json(wrapper.texts[0].type));
  std::vector<std::string> known;
  for (const WrappedText& text : wrapper.texts) {
    // Classes with one language model do not read its type; some files give their own.
    if (type == text.type || (wrapper.texts.size() == 1 && type == wrapper.name)) return text;
    known.push_back(text.type);
  }
  throw Error(ErrorKind::job, name + ": text_config is of model_type " + dump_json(type) + ", and forge reads a " + wrapper.architecture +
                                  " only around a " + join(known, " or a "))
      .hint("use a model whose text_config is of " + std::string(known.size() > 1 ? "such a type" : "that type"));
}

// Splits a config.json without text_config as transformers does: every setting of the language
// model's class is its own, and all else is the class's.
void split_flat(const Json& config, const WrappedText& type, const std::string& wrapper, WrapperSettings& settings) {
  Json stated = Json::object();
  const std::map<std::string, Json>& own = config_keys_of(wrapper).text_defaults.at(type.type);
  for (const auto& [key, value] : config.items()) {
    const bool rope = key == "rope_parameters" || key == "rope_scaling" || key == "rope_theta";
    if (!rope && own.count(key) == 0) continue;
    stated[key] = value;
    settings.outside.erase(key);
  }
  settings.text = std::move(stated);
}

// Takes the sections, by which only images turn, out of the rope settings.
void take_sections(Json& text, const WrappedText& type, WrapperSettings& settings, const std::string& name) {
  if (type.sections.empty()) return;
  settings.sections = type.sections;
  for (const char* table : {"rope_scaling", "rope_parameters"}) {
    if (!is_set(text, table) || !text[table].is_object()) continue;
    Json& rope = text[table];
    for (const char* key : {"type", "rope_type"})
      if (rope.value(key, Json()) == "mrope") rope[key] = "default";
    rope.erase("mrope_interleaved");
    if (!is_set(rope, "mrope_section")) continue;
    const Json sections = rope["mrope_section"];
    const auto fits = [](const Json& number) { return number.is_number_integer() && number >= 0 && number <= kMostSections; };
    if (!sections.is_array() || sections.size() < 3 || sections.size() > 4 || !std::all_of(sections.begin(), sections.end(), fits))
      throw Error(ErrorKind::environment, name + ": " + table + ".mrope_section is " + dump_json(sections).substr(0, 60) +
                                              ", expected three numbers of frequencies: of time, height and width")
          .hint("the model's own config.json states these values");
    settings.sections = sections.get<std::vector<int64_t>>();
    rope.erase("mrope_section");
  }
}

// True if the file states a setting of the family by another name that transformers takes for it.
bool stated_by_alias(const std::string& family, const Json& stated, const std::string& key) {
  for (const auto& [name, stands_for] : config_keys_of(family).aliases)
    if ((name == key && stated.contains(stands_for)) || (stands_for == key && stated.contains(name))) return true;
  return false;
}

// Returns the defaults of a text_config's class for settings that the file does not state by
// another name. The base of the angles is one only where the file states none.
Json text_defaults(const Wrapper& wrapper, const WrappedText& type, const Json& stated) {
  Json text{{"model_type", type.family}};
  for (const auto& [key, value] : config_keys_of(wrapper.name).text_defaults.at(type.type))
    if (!value.is_null() && !stated_by_alias(type.family, stated, key)) text[key] = value;
  for (const char* table : {"rope_scaling", "rope_parameters"})
    if (stated.contains(table) && is_set(stated[table], "rope_theta")) text.erase("rope_theta");
  if (!wrapper.tied) text["tie_word_embeddings"] = false;
  return text;
}

// Sets what the text_config's class computes otherwise than the family's own class.
void set_what_differs(const WrappedText& type, Json& text) {
  for (const auto& [key, own] : type.spelled) {
    const Json value = text.value(key, Json());
    text.erase(key);
    for (const std::string& name : own)
      if (!value.is_null()) text[name] = value;
  }
  for (const auto& [key, value] : type.fixed) text[key] = value;
  const auto number = [&](const char* key) { return is_set(text, key) && text[key].is_number_integer() ? text[key].get<int64_t>() : 0; };
  if (type.equal_heads && number("num_attention_heads") > 0) text["head_dim"] = number("hidden_size") / number("num_attention_heads");
  const auto states_share = [&](const char* table) { return is_set(text, table) && is_set(text[table], "partial_rotary_factor"); };
  if (type.whole_turns && !is_set(text, "partial_rotary_factor") && !states_share("rope_parameters") && !states_share("rope_scaling"))
    text["partial_rotary_factor"] = 1.0;
}

}  // namespace

const std::vector<Wrapper>& wrappers() {
  static const std::vector<Wrapper> table = [] {
    std::vector<Wrapper> all = named_like_llava();
    for (const std::vector<Wrapper>& more : {of_qwen(), of_others(), of_gemma4()}) all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return table;
}

const Wrapper* find_wrapper(const Json& config, const std::string& architecture) {
  const Json type = config.value("model_type", Json());
  for (const Wrapper& wrapper : wrappers())
    if (type == wrapper.name) return &wrapper;
  // Ministral 3's config.json gives its language model's type as its own.
  if (find_family(type) && !is_set(config, "text_config")) return nullptr;
  for (const Wrapper& wrapper : wrappers())
    if (architecture == wrapper.architecture) return &wrapper;
  return nullptr;
}

const Wrapper* wrapper_of(const ModelSpec& spec) {
  for (const Wrapper& wrapper : wrappers())
    if (!spec.wrapper.empty() && spec.wrapper == wrapper.name) return &wrapper;
  return nullptr;
}

const WrappedText* wrapped_text(const ModelSpec& spec) {
  const Wrapper* wrapper = wrapper_of(spec);
  if (!wrapper) return nullptr;
  for (const WrappedText& text : wrapper->texts)
    if (text.family == spec.family) return &text;
  return nullptr;
}

WrapperSettings wrapper_settings(const Wrapper& wrapper, const Json& config, const std::string& name) {
  WrapperSettings settings;
  settings.outside = config, settings.unread = Json::object();
  const Json inside = config.value("text_config", Json());
  settings.flat = wrapper.flat && inside.is_null();
  if (!settings.flat && !inside.is_object())
    throw Error(ErrorKind::environment, name + ": text_config is " + dump_json(inside).substr(0, 60) + ", expected an object")
        .hint("the model's own config.json states its language model there");
  const WrappedText& type = settings.flat ? wrapper.texts[0] : text_of_type(wrapper, inside, name);
  settings.type = &type;
  settings.flat ? split_flat(config, type, wrapper.name, settings) : static_cast<void>(settings.text = inside);
  settings.text["model_type"] = type.family;
  settings.text.erase("architectures");
  Json text = text_defaults(wrapper, type, settings.text);
  text.update(settings.text);
  for (const char* key : {"quantization_config", "eos_token_id", "bos_token_id", "tie_word_embeddings"}) take(config, key, text);
  for (const std::string& key : type.unread) {
    if (is_set(settings.text, key.c_str())) settings.unread[key] = settings.text[key];
    text.erase(key);
  }
  set_what_differs(type, text);
  take_sections(text, type, settings, settings.flat ? name : name + ": text_config");
  settings.text = std::move(text);
  return settings;
}

bool says_tying(const Json& config) {
  return is_set(config, "tie_word_embeddings") || is_set(config.value("text_config", Json::object()), "tie_word_embeddings");
}

std::string unwrapped_name(const ModelSpec& spec, const std::string& name) {
  const std::string inside = language_model_prefix(spec);
  if (inside.empty() || !starts_with(name, inside)) return name;
  return std::string(kModel) + name.substr(inside.size());
}

std::string wrapped_name(const ModelSpec& spec, const std::string& name) {
  const std::string inside = language_model_prefix(spec);
  if (inside.empty() || !starts_with(name, kModel)) return name;
  return inside + name.substr(kModel.size());
}

bool of_towers(const ModelSpec& spec, const std::string& name) {
  const std::string inside = language_model_prefix(spec);
  return !inside.empty() && !starts_with(name, inside) && name != logits_head_name(spec);
}

std::string towers_expression(const ModelSpec& spec) {
  const Wrapper* wrapper = wrapper_of(spec);
  return wrapper ? "(.*\\.)?(" + join(wrapper->towers, "|") + ")\\..*" : "";
}

std::string current_name(const ModelSpec& spec, const std::string& name) {
  const Renaming* renaming = renaming_of(spec, name);
  return renaming ? renaming->current + name.substr(renaming->older.size()) : name;
}

std::unique_ptr<TensorFile> current_names(const ModelSpec& spec, std::unique_ptr<TensorFile> file, const std::string& prefix) {
  return std::make_unique<CurrentNames>(spec, std::move(file), prefix);
}

KeptTensors::KeptTensors(const ModelSpec& spec, const std::string& path)
    : outer_(outer_modules(spec)), stored_names_(family_of(spec).stored_names) {
  if (spec.wrapper.empty()) return;
  file_ = dequantised(open_model(path), stored_scheme_in(path), path);
  std::set<std::string> used;  // beginnings of names in the file
  for (size_t i = 0; i < file_->tensors().size(); ++i) {
    const TensorInfo& tensor = file_->tensors()[i];
    const Renaming* renaming = renaming_of(spec, tensor.name);
    if (of_towers(spec, current_name(spec, tensor.name)))
      tensors_.push_back({tensor, kept_bytes(i)});
    else if (renaming)
      used.insert(renaming->older);
  }
  if (used.empty()) return;
  older_names_ = older_names_of(spec);
  std::ranges::stable_partition(older_names_, [&](const Renaming& renaming) { return used.count(renaming.older) > 0; });
}

// A tensor in codes is written back as a plain one, since the result's config.json says nothing of
// codes.
std::string_view KeptTensors::kept_bytes(size_t index) {
  if (file_->bytes_are_values(index)) return file_->bytes(index);
  const TensorInfo& tensor = file_->tensors()[index];
  std::vector<float> values(static_cast<size_t>(tensor.count()));
  file_->read_f32(index, values.data());
  made_.emplace_back(static_cast<size_t>(bytes_of(tensor.dtype, tensor.count())), '\0');
  encode_from_f32(tensor.dtype, values.data(), tensor.count(), made_.back().data());
  return made_.back();
}

int64_t KeptTensors::bytes() const {
  int64_t sum = 0;
  for (const Tensor& tensor : tensors_) sum += static_cast<int64_t>(tensor.bytes.size());
  return sum;
}

std::string KeptTensors::stored_name(const std::string& name) const {
  if (*outer_.stored_head && name == std::string(outer_.head) + ".weight") return std::string(outer_.stored_head) + ".weight";
  if (!stored_names_.empty()) return with_stored_ending(stored_names_, name);
  for (const Renaming& renaming : older_names_)
    if (starts_with(name, renaming.current)) return renaming.older + name.substr(renaming.current.size());
  return name;
}

}  // namespace forge
