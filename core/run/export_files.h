#pragma once
// The files beside exported weights: tokenizer, chat template, config.json. Torch-free.
#include <string>

#include "core/model/families/model_spec.h"
#include "core/run/model_text.h"

namespace forge {

// Writes tokenizer.json, tokenizer_config.json, special_tokens_map.json … of the base model: copied
// from a folder, or written anew from a GGUF's metadata. Also writes the chat template of the
// training as chat_template.jinja, which takes precedence over all others and sets the job's
// variables: the model's own, or the one that data.template names.
void write_tokenizer_files(const std::string& model_path, const TemplateChoice& choice, const std::string& folder);

// Copies the tokenizer files of another folder, such as an adapter's, over those in `folder`. Does
// nothing where that folder has none.
void copy_tokenizer_files(const std::string& from, const std::string& folder);

// Writes config.json of a fully fine-tuned or merged model: the base folder's own (model_config)
// with `dtype` and tie_word_embeddings replaced, or one made from the spec when the base is a GGUF.
// generation_config.json is copied if the base has one.
void write_model_config(const ModelConfig& model, const ModelSpec& spec, const std::string& dtype,
                        const std::string& folder);

// Tells servers of the model in `folder` which tokens end an answer: adds the token that the chat
// template writes after a turn to eos_token_id of generation_config.json. Where there is no such
// file, it is made from the token ids of config.json. Call it last.
void write_generation_ends(const std::string& folder);

// Returns the padding token for config.json of a model with a score head. transformers reads the
// score at the last token that is not padding, so it is a token that ends no text.
int64_t padding_of_scores(const ModelSpec& spec);

}  // namespace forge
