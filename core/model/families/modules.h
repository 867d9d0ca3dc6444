#pragma once
// The modules of a decoder by their Hugging Face paths, which parameters, adapter targets and
// modules_to_save use.
#include <string>
#include <vector>

#include "core/graph/recorder.h"
#include "core/model/families/parameters.h"

namespace forge {

// Return the names of a module's tensors in files. Vectors and experts are parameters under the
// module's own name.
std::string weight_name(const ModuleUse& module);
std::string bias_name(const ModuleUse& module);
// True for a linear layer in PEFT's sense: all-linear and target_modules choose among these.
bool adaptable(const ModuleUse& module);

// Returns the modules in the order of a Hugging Face state_dict, with nothing of them trained. The
// head is included even if its weight is the embedding's.
std::vector<ModuleUse> modules_of(const ModelSpec& spec, Experts experts = Experts::one_by_one);
// Returns the modules of a model with an adapter, which treats all of a row alike: experts that it
// tells apart are no row (rows_apart).
std::vector<ModuleUse> modules_for(const ModelSpec& spec, const AdapterConfig& adapter,
                                   Experts experts);

inline constexpr const char* kScoreModule = "score";  // the head of a model that gives one score, in every family

// Return the tensors of the embedding and of the head: "model.embed_tokens.weight",
// "lm_head.weight"; for a model that scores, "score.weight".
std::string embedding_name(const ModelSpec& spec);
std::string head_name(const ModelSpec& spec);
// Return the tensors of the head of the family's language model, even if this model lacks them.
std::string logits_head_name(const ModelSpec& spec);
std::string head_bias_name(const ModelSpec& spec);

// Returns the modules that modules_to_save names, by PEFT's rule: the path ends with the name.
// Throws Error(job) naming every entry that matches nothing, or that names something other than a
// module with weights.
std::vector<ModuleUse> saved_modules(const ModelSpec& spec, const AdapterConfig& adapter,
                                     Experts experts = Experts::one_by_one);

}  // namespace forge
