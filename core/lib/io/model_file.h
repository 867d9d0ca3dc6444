#pragma once
// Opens the weights of a model, wherever they are: a Hugging Face folder or a .gguf file.
//
//   std::unique_ptr<TensorFile> weights = open_model("models/SmolLM2-135M-Instruct");
#include <memory>
#include <string>
#include <vector>

#include "core/lib/io/tensor_file.h"

namespace forge {

enum class ModelFormat { hugging_face, gguf };

// Returns hugging_face for a folder, and gguf for a file that is a GGUF (by its first bytes).
// Throws Error(environment) for anything else, saying what was expected; pickles are refused under
// any name.
ModelFormat model_format(const std::string& path);

// True for a file, and for a folder that holds anything like weights. Without weights there may be
// a plan, but nothing to run.
bool has_weights(const std::string& path);

// Opens model.safetensors, or else model.safetensors.index.json with its shards, of a folder; or a
// GGUF (see open_gguf). Throws Error(environment) for missing, broken or pickled weights,
// Error(job) for an unknown GGUF architecture.
std::unique_ptr<TensorFile> open_model(const std::string& path, Data data = Data::required);
// Returns the files of a folder that open_model takes the weights from: model.safetensors, or the
// index's shards.
std::vector<std::string> weight_file_names(const std::string& folder);

}  // namespace forge
