#pragma once
// A language model inside a class with towers for images: Gemma3ForConditionalGeneration around
// Gemma 3's text model, Mistral3ForConditionalGeneration around Mistral's or Ministral 3's. forge
// trains the language model, and its towers stay as they are.
//
//   ModelSpec spec = read_model_spec("models/gemma-3-4b-it");
//   spec.wrapper                                     // "gemma3"; spec.family is "gemma3_text"
//   unwrapped_name(spec, "model.language_model.norm.weight")   // "model.norm.weight"
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/lib/io/tensor_file.h"
#include "core/model/families/family.h"

namespace forge {

// A language model that a class with towers may contain.
struct WrappedText {
  std::string type;    // model_type of its text_config
  std::string family;  // the family that computes it
  // Keys of text_config that the family's own class reads and the class of this type does not.
  std::vector<std::string> unread = {};
  std::string gguf_architecture = {};  // llama.cpp's name of it inside this class; empty: the family's
  // Frequencies that turn by time, height and width of an image's patch (mrope), if the rope
  // settings do not divide them; a text's positions are equal in all three. Empty: no sections.
  std::vector<int64_t> sections = {};
  bool whole_sections = false;  // the sections must be all frequencies of a head
  int64_t image_layers = 0;     // ModelSpec::image_layers, if vision_config does not list them
  bool joined_experts = false;  // ModelSpec::joined_experts
  std::vector<std::pair<std::string, Json>> fixed = {};  // settings of the family that this class does not vary
  // Keys of this class, and the family's keys of the same setting.
  std::vector<std::pair<std::string, std::vector<std::string>>> spelled = {};
  bool equal_heads = false;  // a head has hidden_size / num_attention_heads features: head_dim is not read
  bool whole_turns = false;  // all features of a head turn if no partial_rotary_factor is stated
};

// The beginning of tensor names in files of an older generation, and what it is now.
struct Renaming {
  std::string older, current;
};

struct Wrapper {
  std::string name;                // ModelSpec::wrapper, and config.json's model_type
  std::string architecture;        // config.json: architectures[0]
  std::vector<WrappedText> texts;  // a text_config without a model_type is of the first
  std::vector<std::string> image_settings;  // keys of config.json that only images are computed by
  // Modules of the class beside its language model. A file without a tensor of the first is not
  // whole.
  std::vector<std::string> towers = {"vision_tower", "multi_modal_projector"};
  std::vector<Renaming> older_names = {};  // the first match applies
  OuterModules modules = {.embedding = "model.language_model.embed_tokens",
                          .layers = "model.language_model.layers.",
                          .final_norm = "model.language_model.norm"};
  bool tied = true;   // the class's default of tie_word_embeddings
  bool flat = false;  // a config.json without text_config states the language model beside vision_config
};

// Return the table, and its row for config.json; null for a model without towers. The model_type
// decides, or the class in architectures where forge does not know the type or a text_config shows
// that the class is meant.
const std::vector<Wrapper>& wrappers();
const Wrapper* find_wrapper(const Json& config, const std::string& architecture);
// Return the row of a model with towers, and its language model; null for one without.
const Wrapper* wrapper_of(const ModelSpec& spec);
const WrappedText* wrapped_text(const ModelSpec& spec);

// The settings in a wrapper's config.json.
struct WrapperSettings {
  Json text;     // of the language model, for read_config()
  Json outside;  // of the class itself
  Json unread;   // those of text_config that nothing reads
  const WrappedText* type = nullptr;
  bool flat = false;              // there is no text_config
  std::vector<int64_t> sections;  // mrope_section, or the class's own; empty: none
};
// Returns the settings: text_config over the defaults of its class in transformers (published files
// leave out values that equal them), with the keys beside it that apply to it: quantization_config,
// tie_word_embeddings, the ids of tokens that begin and end a text. Throws Error(environment) for a
// text_config that is no object, Error(job) for one of an unknown type.
WrapperSettings wrapper_settings(const Wrapper& wrapper, const Json& config, const std::string& name);
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
// Returns a regular expression, in PEFT's form, of the modules beside the language model.
std::string towers_expression(const ModelSpec& spec);

// Shows the tensors of a file under transformers 5's names, whichever generation wrote it:
//
//   until 4.51, and published      since 4.52                       class
//   language_model.model.X         model.language_model.X           gemma3, mistral3
//   language_model.lm_head.X       lm_head.X
//   vision_tower.X                 model.vision_tower.X
//   model.X                        model.language_model.X           qwen2_vl, qwen2_5_vl
//   visual.X                       model.visual.X
//
// Likewise GPT-NeoX's head, which checkpoints still call embed_out and transformers 5 lm_head.
//
// The names of an adapter's file have `prefix` before them.
std::unique_ptr<TensorFile> current_names(const ModelSpec& spec, std::unique_ptr<TensorFile> file, const std::string& prefix = "");
std::string current_name(const ModelSpec& spec, const std::string& name);

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
  std::vector<Renaming> older_names_;  // of the file; empty: it has the current names
  OuterModules outer_;
  std::vector<std::pair<std::string, std::string>> stored_names_;
};

}  // namespace forge
