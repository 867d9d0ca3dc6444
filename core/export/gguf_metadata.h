#pragma once
// What a GGUF says of a model beside its tensors. Keys: gguf.md of ggml; values as llama.cpp's convert_hf_to_gguf.py writes them.
#include <string>

#include "core/families/model_spec.h"
#include "core/io/gguf.h"
#include "core/io/gguf_names.h"
#include "core/io/gguf_tensors.h"
#include "core/io/gguf_writer.h"
#include "core/text/gguf_vocabulary.h"

namespace forge {

// The architecture that llama.cpp knows the family by. Throws Error(job) where it has none that forge writes.
const GgufArchitecture& gguf_architecture_of(const ModelSpec& spec);

// Sizes, rotary embedding, norms, caps: {architecture}.*. Throws Error(job) for a rotary scaling that GGUF has no words for.
void add_model_keys(const ModelSpec& spec, GgufMetadata& metadata);
// The tensors that stand for the rotary scaling of llama3 and longrope; empty for any other.
GgufRopeFactors rope_factors_of(const ModelSpec& spec);

// tokenizer.*
void add_vocabulary_keys(const GgufVocabulary& vocabulary, GgufMetadata& metadata);

// All keys of another GGUF but those about its own types and parts.
void copy_keys(const Gguf& gguf, GgufMetadata& metadata);

// What a GGUF made from `spec` would be understood as other than `spec`: sentences, empty where it says all. `read` is the spec
// that was read back from it.
std::vector<std::string> lost_settings(const ModelSpec& spec, const ModelSpec& read);

}  // namespace forge
