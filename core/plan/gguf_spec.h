#pragma once
// A GGUF's metadata as a ModelSpec. Key names: gguf.md of ggml and the conversion of llama.cpp.
#include <string>

#include "core/plan/model_spec.h"

namespace forge {

// `metadata`: the file's scalar keys ("llama.block_count": 30); `file`: its tensors under their Hugging Face
// names. Biases and a tied head are seen in the tensors. A rope_freqs.weight must be llama3 scaling as Meta
// configured it.
ModelSpec model_spec_from_gguf(const Json& metadata, const TensorFile& file, const std::string& name);

ModelSpec model_spec_of_gguf(const std::string& path);

}  // namespace forge
