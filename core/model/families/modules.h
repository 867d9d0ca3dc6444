#pragma once
// The modules of a decoder by their Hugging Face paths, which parameters, adapter targets and
// modules_to_save use.
#include <string>
#include <vector>

#include "core/model/families/parameters.h"
#include "core/graph/graph.h"

namespace forge {

struct Module {
  std::string path;          // "model.layers.0.self_attn.q_proj"
  Role role = Role::linear;  // embedding, norm, linear, head, vector or experts
  int64_t layer = -1;
  int64_t in_features = 0,
          out_features = 0;  // norm: out_features is its width; embedding: hidden, vocabulary
  bool bias = false;
  LinearUse use = LinearUse::layer;
  int64_t experts = 0;    // experts in one tensor [experts, in_features, out_features]
  bool constant = false;  // never trained
};

// Return the names of a module's tensors in files. Vectors and experts are parameters under the
// module's own name.
std::string weight_name(ModuleKind kind, const std::string& path);
std::string bias_name(ModuleKind kind, const std::string& path);
// True for a linear layer in PEFT's sense: all-linear and target_modules choose among these.
bool adaptable(const Module& module);

// Returns the modules in the order of a Hugging Face state_dict. The head is included even if its
// weight is the embedding's.
std::vector<Module> modules_of(const ModelSpec& spec);

inline constexpr const char* kScoreModule = "score";  // the head of a model that gives one score, in every family

// Return the tensors of the embedding and of the head: "model.embed_tokens.weight",
// "lm_head.weight"; for a model that scores, "score.weight".
std::string embedding_name(const ModelSpec& spec);
std::string head_name(const ModelSpec& spec);
// Returns the head's tensor of the family's language model, even if this model lacks it.
std::string logits_head_name(const ModelSpec& spec);

// Returns the modules that modules_to_save names, by PEFT's rule: the path ends with the name.
// Throws Error(job) naming every entry that matches nothing, or that names something other than a
// module with weights.
std::vector<Module> saved_modules(const ModelSpec& spec, const AdapterConfig& adapter);

}  // namespace forge
