#pragma once
// Checks a weight file against the parameter list.
#include "core/lib/io/tensor_file.h"
#include "core/model/families/parameters.h"

namespace forge {

// Throws Error(environment) naming every tensor that is missing, has another shape, or is not part
// of the model. Buffers that are computed anyway (rotary inv_freq) are ignored, and so is a head
// beside a tied embedding.
void check_model_file(const ModelSpec& spec, const TensorFile& file, const std::string& path = "model");

// Throws Error(environment) if the spec ties the head to the embedding and the file holds two that
// differ: transformers 5 ties only what is equal, transformers 4 ties always, so such a file is
// neither's model.
void refuse_another_head(const ModelSpec& spec, const TensorFile& file, const std::string& path);

}  // namespace forge
