#pragma once
// README.md of a result, in the hub's model-card form: it says what the result is and how
// transformers, PEFT, vLLM, llama.cpp and Ollama load it, with snippets that work unchanged in the
// folder.
#include <string>

#include "core/plan/plan.h"

namespace forge {

// Writes the card of a run's result, an adapter or a fully fine-tuned model. Its other files are in
// `folder` already. `model` is the base model's path; parts that look like secrets are not shown.
void write_model_card(const Plan& plan, const std::string& model, const std::string& folder);

// Returns the card of a merged model in `folder`; `note` says in which form a quantised base was
// taken, or is empty.
std::string merged_card(const ModelSpec& spec, const std::string& model_name, const std::string& note, const std::string& dtype,
                        const std::string& folder);

// Returns the card of a GGUF export: `file` is a whole model, or with `base` a low-rank adapter for
// that base's GGUF.
std::string gguf_card(const std::string& model_name, const std::string& file, const std::string& type, bool adapter,
                      const std::string& note);

}  // namespace forge
