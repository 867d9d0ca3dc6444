#pragma once
// Reads a GGUF's metadata as a ModelSpec. Key names: gguf.md of ggml and the conversion of
// llama.cpp.
#include <string>

#include "core/lib/io/gguf_tensors.h"
#include "core/model/families/model_spec.h"

namespace forge {

struct Described;

// Returns the spec. `metadata` has the file's scalar keys ("llama.block_count": 30), `file` its
// tensors under their Hugging Face names, `factors` the tensors that scale its rotary positions.
// Biases and a tied head are detected from the tensors. A key of the architecture that is not read
// is refused by name. `described` is the family of a family file that reads it.
ModelSpec model_spec_from_gguf(const Json& metadata, const TensorFile& file, const GgufRopeFactors& factors, const std::string& name,
                               const Described* described = nullptr);

ModelSpec model_spec_of_gguf(const std::string& path, const Described* described = nullptr);

}  // namespace forge
