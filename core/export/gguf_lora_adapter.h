#pragma once
// A LoRA GGUF as a PEFT adapter: what a reader of the format makes of it, to be compared with what it was written from.
#include <string>

#include "core/families/model_spec.h"

namespace forge {

// Writes adapter_config.json and adapter_model.safetensors into `folder`, which is there. Factors are as llama.cpp takes them: A [rank, in],
// B [out, rank] with Hugging Face's order of rows and the scale alpha / rank multiplied in. Throws Error(environment) for a file that holds
// no such factors of the model.
void write_adapter_of_gguf(const std::string& path, const ModelSpec& spec, const std::string& folder);

}  // namespace forge
