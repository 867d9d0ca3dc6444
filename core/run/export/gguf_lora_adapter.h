#pragma once
// Converts a LoRA GGUF to a PEFT adapter by the rules of a reader of the format, to compare it with
// the adapter that it was made from.
#include <string>

#include "core/model/families/model_spec.h"

namespace forge {

// Writes adapter_config.json and adapter_model.safetensors into `folder`, which exists. Factors are
// those that llama.cpp uses: A [rank, in], B [out, rank] with Hugging Face's order of rows and the
// scale alpha / rank multiplied in. Throws Error(environment) for a file that holds no such factors
// of the model.
void write_adapter_of_gguf(const std::string& path, const ModelSpec& spec, const std::string& folder);

}  // namespace forge
