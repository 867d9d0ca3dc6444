#pragma once
// README.md of a result, in the hub's model-card form: what it is, and how transformers, PEFT, vLLM, llama.cpp and Ollama load
// it, as snippets that work in the folder as they stand.
#include <string>

#include "core/plan/plan.h"

namespace forge {

// Writes the card of a run's result, an adapter or a fully fine-tuned model, whose other files are in `folder` already. `model` is the base
// model's path, shown without what looks like a secret.
void write_model_card(const Plan& plan, const std::string& model, const std::string& folder);

// Returns the card of a merged model in `folder`; `note` says in which form a quantised base was taken, or is empty.
std::string merged_card(const ModelSpec& spec, const std::string& model_name, const std::string& note, const std::string& dtype,
                        const std::string& folder);

// Returns the card of a GGUF export: `file` is a whole model, or with `base` a low-rank adapter for that base's GGUF.
std::string gguf_card(const std::string& model_name, const std::string& file, const std::string& type, bool adapter,
                      const std::string& note);

}  // namespace forge
