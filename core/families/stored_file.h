#pragma once
// A model's file by the names and layouts of its parameters, where a family's files have others.
//
//   std::unique_ptr<TensorFile> weights = open_weights(spec, "models/gpt2");
#include <memory>
#include <string>
#include <vector>

#include "core/families/parameters.h"
#include "core/io/model_file.h"

namespace forge {

// open_model(), read as base_parameters(spec) says. Of a family whose linear layers are Conv1D in transformers (GPT-2), a Hugging
// Face file holds [in, out]: its tensors are given transposed, as [out, in]. Tensors that were saved without the language model's
// prefix ("h.0.ln_1.weight") have it. Rows of added tokens (ModelSpec::added_rows) are behind the file's.
std::unique_ptr<TensorFile> open_weights(const ModelSpec& spec, const std::string& path, Data data = Data::required);

// Whether files hold the weights of linear layers transposed.
bool stores_transposed(const ModelSpec& spec);
// Whether a file holds this parameter transposed, so that a writer must turn it.
bool stored_transposed(const ModelSpec& spec, const Parameter& parameter);

// BART's bias of the logits, a buffer of zeros.
constexpr const char* kLogitsBias = "final_logits_bias";
// Tensors that transformers' files of the model hold beside its parameters: zeros, which nothing trains.
std::vector<TensorInfo> zero_buffers(const ModelSpec& spec);

}  // namespace forge
