#pragma once
// The files beside exported weights: tokenizer, chat template, config.json. Torch-free.
#include <string>

#include "core/families/model_spec.h"
#include "core/run/model_text.h"

namespace forge {

// tokenizer.json, tokenizer_config.json, special_tokens_map.json … of the base model: copied from a folder, written anew
// from a GGUF's metadata. With them the chat template that was trained with: the model's own, or what data.template
// says, as chat_template.jinja, which comes before all others and sets the job's variables.
void write_tokenizer_files(const std::string& model_path, const TemplateChoice& choice, const std::string& folder);

// The tokenizer files of another folder, such as an adapter's, over those in `folder`; nothing where it has none.
void copy_tokenizer_files(const std::string& from, const std::string& folder);

// config.json of a fully fine-tuned or merged model: the base folder's own (model_config) with `dtype` and tie_word_embeddings replaced, or
// one written from the spec when the base is a GGUF. generation_config.json is copied where there is one.
void write_model_config(const ModelConfig& model, const ModelSpec& spec, const std::string& dtype,
                        const std::string& folder);

// Tells those who serve the model in `folder` what an answer ends with: the token that its chat template writes behind a turn is added
// to eos_token_id of its generation_config.json, which begins as config.json's where there is no such file. Call it last.
void write_generation_ends(const std::string& folder);

// The padding token that config.json of a model with a score head names: transformers reads the score at the last token that
// is not padding, so it is one that ends no text.
int64_t padding_of_scores(const ModelSpec& spec);

}  // namespace forge
