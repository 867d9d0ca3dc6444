#pragma once
// The one list of tensors that a run owns. The layout, the memory estimate, the loader, the
// adapter's targets and the saved files all read it.
#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/recorder.h"
#include "core/job/job.h"
#include "core/model/families/model_spec.h"

namespace forge {

enum class Role { embedding, norm, linear, bias, head, vector, experts, filter, lora_a, lora_b, dora_magnitude, token_rows };

struct Parameter {
  std::string name;  // Hugging Face's: "model.layers.0.self_attn.q_proj.weight"; adapters: module + ".lora_A.weight"
  std::vector<int64_t> shape;
  Role role = Role::linear;
  int64_t layer = -1;  // decoder layer, or -1
  bool trainable = false;
  bool quantized = false;     // stored in blocks of 4 or 8 bits
  bool weight_decay = false;  // norms and biases never decay
  bool quantizable = false;   // the matrix of a linear layer that is no router
  bool constant = false;      // a buffer of transformers: never trained
  bool replaced = false;      // by a trained copy in the same list
  // Tensors of a row, which are equal but for numbers in their names; `name` is the first one's.
  int64_t copies = 1;

  int64_t count() const;  // of one tensor
  int64_t total() const { return copies * count(); }
};

// Returns the base model's tensors in the order of a Hugging Face checkpoint: embedding, layers,
// final norm, head (absent when tied).
// Experts in rows have a parameter for each row (Parameter::copies).
std::vector<Parameter> base_parameters(const ModelSpec& spec,
                                       Experts experts = Experts::one_by_one);

// Returns all parameters of a run: base (frozen unless adapter.type is none), then the adapter's,
// then modules_to_save, which are trainable copies named as PEFT saves them.
std::vector<Parameter> run_parameters(const ModelSpec& spec, const AdapterConfig& adapter,
                                      Quantization quantization,
                                      Experts experts = Experts::one_by_one);

// Returns the parameters of a run in rows (Parameter::copies): the tensors of experts and layers
// that are equal but for the numbers in their names are one row, so that sums and maxima cost the
// same for any number of them. Those outside of layers come one by one, the embedding first.
std::vector<Parameter> parameter_rows(const ModelSpec& spec, const AdapterConfig& adapter,
                                      Quantization quantization);

// Returns the spec of a base with the run's adapter merged into it: a tied head has a matrix of its
// own if the adapter trains the embedding or the head by itself.
ModelSpec merged_spec(const ModelSpec& spec, const AdapterConfig& adapter);

// PEFT's prefix of the base's names: "base_model.model.lm_head.weight".
inline constexpr const char* kSavedPrefix = "base_model.model.";

// Returns the base tensor that a trained one replaces; empty for adapter factors. modules_to_save
// are copies whose names carry PEFT's prefix.
std::string base_name(const Parameter& parameter);

// Returns the row of the embedding that training never changes; -1: none. transformers gives
// pad_token_id to nn.Embedding as its padding_idx, whose row gets no gradient, whichever tokens are
// masked. A tied head's own gradient still reaches it.
int64_t frozen_embedding_row(const ModelSpec& spec);

struct ParameterCounts {
  int64_t total = 0, trainable = 0;
};
ParameterCounts count_parameters(const std::vector<Parameter>& parameters);

}  // namespace forge
