#pragma once
// A decoder's weights as the layers use them. The same object serves training (some tensors are
// leaves that want gradients), evaluation and generation.
#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/lib/io/tensor_file.h"
#include "core/model/families/model_spec.h"
#include "core/model/families/parameters.h"
#include "core/graph/recorder.h"
#include "kernels/linear/linear.h"

namespace forge {

struct Model {
  ModelSpec spec;
  c10::ScalarType type = c10::ScalarType::Float;  // of activations, and of weights but for BaseStorage's
  c10::Device device = c10::DeviceType::CPU;
  at::Tensor embedding;                      // [vocab, hidden]
  std::map<std::string, at::Tensor> tables;  // other embeddings, of positions and distances, by module path; [rows, width]
  at::Tensor head;                           // [vocab, hidden]; the embedding itself when tied
  at::Tensor head_bias;                      // [vocab]; undefined without one
  QuantizedWeight head_blocks;               // the head as a GGUF holds it, beside `head`: BaseStorage::stored_blocks
  std::map<std::string, LinearSpec> linears; // by module path: "model.layers.0.self_attn.q_proj"; joined experts too
  std::map<std::string, at::Tensor> norms;   // weights and other vectors, by module path; [width]
  std::map<std::string, at::Tensor> norm_biases;  // of those that have one
};

// Returns the head in the compute type: itself, or converted. [vocab, hidden]
at::Tensor head_weight(const Model& model);

// Returns the slot of a base tensor by its Hugging Face name; null for a name the model does not
// have. The slot of a quantised weight is undefined: see LinearSpec::quantized.
at::Tensor* find_weight(Model& model, const std::string& name);
// Returns the linear layer of a module path, or null.
LinearSpec* find_linear(Model& model, const std::string& module);

// Returns, by name, the weights that training never changes but that files of the model hold.
std::vector<std::pair<std::string, at::Tensor>> constant_weights(const Model& model);

// Forms in which the base is held in memory. The matrices that are marked quantized in the run's
// parameter list (run_parameters) are in blocks, other frozen matrices in `frozen`
// (Profile::storage), all else in the compute type.
struct BaseStorage {
  Quantization quantization = Quantization::none;
  bool double_quantization = false;
  std::optional<c10::ScalarType> frozen;  // nothing: the compute type
  std::vector<Parameter> parameters;      // may be empty without either
  // Adapters that are computed in the products of their weights, which then have room for them
  // (core/model/graph/fold_adapters.h).
  std::optional<ModuleTraining> folded;
  bool written = false;  // some are written to later (adapter.init: pissa and its like), so none is the file's own memory
  // A GGUF's matrices stay in its own blocks, where it has them in blocks: for models that only
  // decode, under `fused` on a CPU.
  bool stored_blocks = false;
};

// Returns a model of which no weight is loaded.
Model empty_model(const ModelSpec& spec, c10::ScalarType type, c10::Device device);
// Reads `parameters`, some of base_parameters(spec), in the model's type and on its device, each by
// itself. Throws like load_model.
void load_weights(Model& model, const TensorFile& file, const std::vector<Parameter>& parameters);

// Reads every tensor of base_parameters(spec) into `type` on `device`, and quantises as it goes (or
// takes the file's own blocks, if it has them in the format that is asked for):
// beside the result there is one tensor in fp32 for each thread. On a CPU a tensor that the file
// holds as it is used is the file's own memory, mapped, and must not be written to. A score head
// that a language model's file does not have starts at zero (starts_score_head), so that every text
// has the score 0. Throws Error(environment) if the file's tensors are not exactly the model's, if
// a weight to quantise holds a value that is not finite, and if a value is past the range of
// `storage.frozen`.
Model load_model(const ModelSpec& spec, const TensorFile& file, c10::ScalarType type, c10::Device device,
                 const BaseStorage& storage = {});

}  // namespace forge
