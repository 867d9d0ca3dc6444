#pragma once
// Opens a model's file under the names and layouts of its parameters, if the family's files have
// others.
//
//   std::unique_ptr<TensorFile> weights = open_weights(spec, "models/gpt2");
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/lib/io/model_file.h"
#include "core/model/families/parameters.h"

namespace forge {

// Returns open_model() as base_parameters(spec) describes it. If a family's linear layers are
// Conv1D in transformers (GPT-2), a Hugging Face file holds [in, out], and its tensors are returned
// transposed, as [out, in]; likewise Gemma 4's joined experts. Tensors that were saved without the
// language model's prefix ("h.0.ln_1.weight") have it. Rows of added tokens (ModelSpec::added_rows)
// follow the file's rows.
std::unique_ptr<TensorFile> open_weights(const ModelSpec& spec, const std::string& path, Data data = Data::required);

// Returns a tensor's name with the ending that it has in Hugging Face's files
// (Family::stored_names).
std::string with_stored_ending(const std::vector<std::pair<std::string, std::string>>& stored_names,
                               const std::string& name);

// True if files hold the weights of linear layers transposed.
bool stores_transposed(const ModelSpec& spec);
// True if files hold joined experts as [experts, out, in], which are [experts, in, out] here.
bool stores_experts_turned(const ModelSpec& spec);
// True if a file holds this parameter transposed, so that a writer must transpose it.
bool stored_transposed(const ModelSpec& spec, const Parameter& parameter);

// BART's bias of the logits, a buffer of zeros.
constexpr const char* kLogitsBias = "final_logits_bias";
// Returns the tensors that transformers' files of the model hold beside its parameters: zeros,
// which are never trained.
std::vector<TensorInfo> zero_buffers(const ModelSpec& spec);

}  // namespace forge
