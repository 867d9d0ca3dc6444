#pragma once
// The metadata of a GGUF: all about a model but its tensors. Keys are from ggml's gguf.md; values
// are those that llama.cpp's convert_hf_to_gguf.py writes.
#include <string>

#include "core/lib/io/gguf.h"
#include "core/lib/io/gguf_names.h"
#include "core/lib/io/gguf_tensors.h"
#include "core/lib/io/gguf_writer.h"
#include "core/lib/text/gguf_vocabulary.h"
#include "core/model/families/model_spec.h"

namespace forge {

// Returns llama.cpp's architecture for the family. Throws Error(job) if there is none that forge
// writes.
const GgufArchitecture& gguf_architecture_of(const ModelSpec& spec);

// Adds {architecture}.*: sizes, rotary embedding, norms, caps. Throws Error(job) for a rotary
// scaling that GGUF has no keys for.
void add_model_keys(const ModelSpec& spec, GgufMetadata& metadata);
// Returns the model's numbers of heads, by which a file's rows are ordered.
GgufHeads gguf_heads_of(const ModelSpec& spec);
// Returns the tensors that represent the rotary scaling of llama3 and longrope; empty for any
// other.
GgufRopeFactors rope_factors_of(const ModelSpec& spec);

// Returns a sentence if llama.cpp attends to all tokens where the model has a sliding window, as in
// Mistral and Qwen; else "".
std::string ignored_window(const ModelSpec& spec);

// Adds tokenizer.*.
void add_vocabulary_keys(const GgufVocabulary& vocabulary, GgufMetadata& metadata);

// Copies all keys of another GGUF but those about its own types and parts.
void copy_keys(const Gguf& gguf, GgufMetadata& metadata);

// Returns the settings in which `read`, the spec that was read back from a GGUF made from `spec`,
// differs from `spec`: one sentence each, empty if the GGUF holds all.
std::vector<std::string> lost_settings(const ModelSpec& spec, const ModelSpec& read);

}  // namespace forge
