#include "core/model/families/wrapper.h"

#include <algorithm>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/lib/io/encode.h"
#include "core/lib/io/model_file.h"
#include "core/lib/io/wrapped_file.h"
#include "core/model/families/config_keys.h"
#include "core/model/families/modules.h"
#include "core/model/families/stored_config.h"
#include "core/model/stored/dequantised_file.h"

namespace forge {
namespace {

constexpr std::string_view kModel = "model.", kLanguageModel = "model.language_model.";

struct Renaming {
  std::string_view older, current;
};
// Renamings of transformers' conversion_mapping.py, "llava", "LlavaModel" and "GPTNeoXForCausalLM";
// the first match applies.
constexpr Renaming kRenamings[] = {{"language_model.lm_head.", "lm_head."},
                                   {"language_model.model.", kLanguageModel},
                                   {"language_model.", kLanguageModel},
                                   {"vision_tower.", "model.vision_tower."},
                                   {"multi_modal_projector.", "model.multi_modal_projector."},
                                   {"embed_out.", "lm_head."}};

class CurrentNames : public WrappedFile {
 public:
  CurrentNames(std::unique_ptr<TensorFile> file, const std::string& prefix) : WrappedFile(std::move(file)) {
    tensors_ = file_->tensors();
    for (TensorInfo& tensor : tensors_)
      if (starts_with(tensor.name, prefix)) tensor.name = prefix + current_name(tensor.name.substr(prefix.size()));
  }

 protected:
  bool makes(size_t) const override { return false; }
  void make_rows(size_t, int64_t, int64_t, float*) const override {}
};

// Copies a member of `from` into `text` if it has a value.
void take(const Json& from, const char* key, Json& text) {
  if (const auto found = from.find(key); found != from.end() && !found->is_null()) text[key] = *found;
}

}  // namespace

const std::vector<Wrapper>& wrappers() {
  static const std::vector<Wrapper> table{
      {.name = "gemma3",
       .architecture = "Gemma3ForConditionalGeneration",
       .text = "gemma3_text",
       .image_settings = {"vision_config", "mm_tokens_per_image", "boi_token_index", "eoi_token_index", "image_token_index"},
       .unread = {"final_logit_softcapping"}},
      {.name = "mistral3",
       .architecture = "Mistral3ForConditionalGeneration",
       .text = "mistral",
       .image_settings = {"vision_config", "image_token_index", "projector_hidden_act", "vision_feature_layer",
                          "multimodal_projector_bias", "spatial_merge_size"}}};
  return table;
}

const Wrapper* find_wrapper(const Json& type, const std::string& architecture) {
  for (const Wrapper& wrapper : wrappers())
    if (type == wrapper.name) return &wrapper;
  if (find_family(type)) return nullptr;
  for (const Wrapper& wrapper : wrappers())
    if (architecture == wrapper.architecture) return &wrapper;
  return nullptr;
}

Json text_settings(const Wrapper& wrapper, const Json& config, const std::string& name) {
  const Json stated = config.value("text_config", Json());
  if (!stated.is_object())
    throw Error(ErrorKind::environment, name + ": text_config is " + dump_json(stated).substr(0, 60) + ", expected an object")
        .hint("the model's own config.json states its language model there");
  if (const Json type = stated.value("model_type", Json(wrapper.text)); type != wrapper.text)
    throw Error(ErrorKind::job, name + ": text_config is of model_type " + dump_json(type) + ", and forge reads a " + wrapper.architecture +
                                    " only around a " + wrapper.text)
        .hint("use a model whose text_config is of that type");
  Json text{{"model_type", wrapper.text}};
  for (const auto& [key, value] : config_keys_of(wrapper.name).text_defaults)
    if (!value.is_null()) text[key] = value;
  text.update(stated);
  for (const char* key : {"quantization_config", "eos_token_id", "bos_token_id", "tie_word_embeddings"}) take(config, key, text);
  for (const std::string& key : wrapper.unread) text.erase(key);
  return text;
}

bool says_tying(const Json& config) {
  const auto says = [](const Json& json) {
    const auto found = json.is_object() ? json.find("tie_word_embeddings") : json.end();
    return found != json.end() && !found->is_null();
  };
  return says(config) || says(config.value("text_config", Json::object()));
}

std::string unwrapped_name(const ModelSpec& spec, const std::string& name) {
  if (spec.wrapper.empty() || !starts_with(name, kLanguageModel)) return name;
  return std::string(kModel) + name.substr(kLanguageModel.size());
}

std::string wrapped_name(const ModelSpec& spec, const std::string& name) {
  if (spec.wrapper.empty() || !starts_with(name, kModel)) return name;
  return std::string(kLanguageModel) + name.substr(kModel.size());
}

bool of_towers(const ModelSpec& spec, const std::string& name) {
  return !spec.wrapper.empty() && !starts_with(name, kLanguageModel) && name != logits_head_name(spec);
}

std::string current_name(const std::string& name) {
  for (const Renaming& renaming : kRenamings)
    if (starts_with(name, renaming.older)) return std::string(renaming.current) + name.substr(renaming.older.size());
  return name;
}

std::unique_ptr<TensorFile> current_names(std::unique_ptr<TensorFile> file, const std::string& prefix) {
  return std::make_unique<CurrentNames>(std::move(file), prefix);
}

KeptTensors::KeptTensors(const ModelSpec& spec, const std::string& path) : outer_(outer_modules(spec)) {
  if (spec.wrapper.empty()) return;
  file_ = dequantised(open_model(path), stored_scheme_in(path), path);
  for (size_t i = 0; i < file_->tensors().size(); ++i) {
    const TensorInfo& tensor = file_->tensors()[i];
    older_names_ |= starts_with(tensor.name, "language_model.");
    if (of_towers(spec, current_name(tensor.name))) tensors_.push_back({tensor, kept_bytes(i)});
  }
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
  if (!older_names_) return name;
  for (const Renaming& renaming : kRenamings)
    if (starts_with(name, renaming.current)) return std::string(renaming.older) + name.substr(renaming.current.size());
  return name;
}

}  // namespace forge
