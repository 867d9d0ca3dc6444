#pragma once
// A language model inside a class with towers for images: Gemma3ForConditionalGeneration around
// Gemma 3's text model, Mistral3ForConditionalGeneration around Mistral's. forge trains the
// language model, and its towers stay as they are.
//
//   ModelSpec spec = read_model_spec("models/gemma-3-4b-it");
//   spec.wrapper                                     // "gemma3"; spec.family is "gemma3_text"
//   unwrapped_name(spec, "model.language_model.norm.weight")   // "model.norm.weight"
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/lib/io/tensor_file.h"
#include "core/model/families/family.h"

namespace forge {

struct Wrapper {
  std::string name;          // ModelSpec::wrapper, and config.json's model_type
  std::string architecture;  // config.json: architectures[0]
  std::string text;          // the family of its text_config
  std::vector<std::string> image_settings;  // keys of config.json that only images are computed by
  // Keys of text_config that the family's own class reads and the class with towers does not.
  std::vector<std::string> unread = {};
};

// Return the table, and its row for config.json's model_type or for the class in architectures;
// null for a model without towers.
const std::vector<Wrapper>& wrappers();
const Wrapper* find_wrapper(const Json& type, const std::string& architecture);

// Returns the settings of the language model in a wrapper's config.json: text_config over the
// defaults of its class in transformers (published files leave out values that equal them), with
// the keys beside it that apply to it: quantization_config, tie_word_embeddings, the ids of tokens
// that begin and end a text. Throws Error(environment) for a text_config that is no object,
// Error(job) for one of another family.
Json text_settings(const Wrapper& wrapper, const Json& config, const std::string& name);
// True if config.json itself says whether head and embedding share their weights. Otherwise the
// file decides, as in transformers.
bool says_tying(const Json& config);

// Returns the name in a model without towers: "model.layers.0.…" for
// "model.language_model.layers.0.…". Other names stay.
std::string unwrapped_name(const ModelSpec& spec, const std::string& name);
// Returns the inverse of unwrapped_name(), for a tensor or module of the language model.
std::string wrapped_name(const ModelSpec& spec, const std::string& name);
// True for a tensor of a model with towers that is not part of its language model.
bool of_towers(const ModelSpec& spec, const std::string& name);

// Shows the tensors of a file under transformers 5's names, whichever generation wrote
// it:
//
//   until 4.51, and published      since 4.52
//   language_model.model.X         model.language_model.X
//   language_model.lm_head.X       lm_head.X
//   vision_tower.X                 model.vision_tower.X
//
// Likewise GPT-NeoX's head, which checkpoints still call embed_out and transformers 5 lm_head.
//
// The names of an adapter's file have `prefix` before them.
std::unique_ptr<TensorFile> current_names(std::unique_ptr<TensorFile> file, const std::string& prefix = "");
std::string current_name(const std::string& name);

// The tensors that a checkpoint holds beside its language model, to be written back byte for byte.
class KeptTensors {
 public:
  // Opens the model in `path`; a model without towers keeps nothing.
  KeptTensors(const ModelSpec& spec, const std::string& path);

  struct Tensor {
    TensorInfo info;  // with the file's own name
    std::string_view bytes;
  };
  const std::vector<Tensor>& tensors() const { return tensors_; }
  int64_t bytes() const;
  // Returns the name of a language model's tensor in the checkpoint's generation of names.
  std::string stored_name(const std::string& name) const;

 private:
  // Returns the bytes of tensor `index` as they are written back.
  std::string_view kept_bytes(size_t index);

  std::unique_ptr<TensorFile> file_;
  std::deque<std::string> made_;  // decoded tensors
  std::vector<Tensor> tensors_;
  bool older_names_ = false;
  OuterModules outer_;
};

}  // namespace forge
