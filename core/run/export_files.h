#pragma once
// The files beside exported weights: tokenizer, chat template, config.json, model card. Torch-free.
#include <string>

#include "core/plan/plan.h"
#include "core/run/model_text.h"

namespace forge {

// tokenizer.json, tokenizer_config.json, special_tokens_map.json … of the base model: copied from a folder, written anew
// from a GGUF's metadata. With them the chat template that was trained with: the model's own, or what data.template
// says, as chat_template.jinja, which comes before all others and sets the job's variables.
void write_tokenizer_files(const std::string& model_path, const TemplateChoice& choice, const std::string& folder);

// config.json of a fully fine-tuned model: the base folder's own with `dtype` replaced, or one written from the spec
// when the base is a GGUF. generation_config.json is copied where there is one.
void write_model_config(const std::string& model_path, const ModelSpec& spec, const std::string& dtype,
                        const std::string& folder);

// README.md in the hub's model-card form: base model, settings, data, how to load. `model_name` is the base model's path
// as it may be shown.
void write_model_card(const Plan& plan, const std::string& model_name, const std::string& folder);

}  // namespace forge
