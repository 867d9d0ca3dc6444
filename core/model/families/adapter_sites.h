#pragma once
// The linear layers that an adapter changes, and its places in the embedding and the head.
//
//   for (const AdapterSite& site : adapter_sites(spec, job.adapter)) site.module;   // "model.layers.0.self_attn.q_proj"
#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/recorder.h"
#include "core/job/job.h"
#include "core/model/families/model_spec.h"

namespace forge {

// One adapted linear layer, or one adapted tensor that holds this layer of all experts.
struct AdapterSite {
  std::string module;  // "model.layers.0.self_attn.q_proj"
  // Name of the adapter's module in PEFT. It equals `module`, except for joined experts
  // (name_joined_adapters).
  std::string adapter;
  int64_t layer = -1;
  int64_t in_features = 0, out_features = 0;
  int64_t rank = 0;
  double alpha = 0;
  double scale = 0;  // alpha / rank, or alpha / sqrt(rank) with rslora
  // Experts in the one tensor: A is [experts · rank, in], B is [out, rank · experts]. 0: a linear
  // layer.
  int64_t experts = 0;
  // Linear layers of a row of experts (ModuleUse::copies); `module` is the first one's.
  int64_t copies = 1;
};

// An adapter's change of the embedding or of the head. A step reads that matrix whole
// (core/model/adapter/whole_weight.h).
//
//   rank > 0   low-rank factors: W + scale · B A of the head, W + scale · (B A)ᵀ of the embedding
//   tokens     rows of these tokens that are trained themselves; a head that shares the embedding's weights has them too
struct VocabularySite {
  std::string module;  // "model.embed_tokens", "lm_head"
  bool embedding = false;
  int64_t vocabulary = 0, hidden = 0;
  int64_t rank = 0;
  double alpha = 0, scale = 0;
  std::vector<int64_t> tokens;  // in the order of the adapter's rows and of its settings

  // Return PEFT's names. A is [rank, hidden] for the head and [rank, vocabulary] for the embedding;
  // B is [vocabulary, rank] and [hidden, rank].
  std::string a() const { return module + (embedding ? ".lora_embedding_A" : ".lora_A.weight"); }
  std::string b() const { return module + (embedding ? ".lora_embedding_B" : ".lora_B.weight"); }
  std::string rows() const { return module + ".token_adapter.trainable_tokens_delta"; }  // [tokens, hidden]: their values, not a difference
};

// Returns at most one site for the embedding and one for the head. Throws Error(job) as
// adapter_sites() does, and for trainable tokens that are invalid or conflict with other settings.
std::vector<VocabularySite> vocabulary_sites(const ModelSpec& spec, const AdapterConfig& adapter);

// Returns the modules that an adapter changes, by PEFT's rules: "all-linear" is every linear layer
// but the head; a name matches the whole path or its end after a dot; a regex must match the whole
// path; rank_pattern and alpha_pattern keys match as regexes anchored at the end on a dot boundary,
// and the first match counts. Throws Error(job) naming every target that matches nothing and the
// available modules. For an adapter that starts from a folder (init_from) such targets and patterns
// are ignored, as in PEFT, as long as one target matches.
std::vector<AdapterSite> adapter_sites(const ModelSpec& spec, const AdapterConfig& adapter,
                                       Experts experts = Experts::one_by_one);

// The results of adapter_sites() and vocabulary_sites().
struct AdapterPlaces {
  std::vector<AdapterSite> sites;
  std::vector<VocabularySite> vocabulary;
};
AdapterPlaces adapter_places(const ModelSpec& spec, const AdapterConfig& adapter,
                             Experts experts = Experts::one_by_one);

// Throws Error(job) if an adapter changes joined experts. forge trains such adapters, but neither
// merges them nor writes them as GGUF.
void refuse_joined_experts(const std::vector<AdapterSite>& sites, const std::string& folder);

// Number of modules that a target matches, for the plan's table: "q_proj" → 32.
struct TargetMatch {
  std::string target;
  int64_t modules = 0, parameters = 0;  // parameters: of the adapter in these modules
  // The numbers of PEFT under transformers 5. They differ for all-linear of a mixture: the experts
  // of a layer are one tensor there and its router is a parameter, and neither is a linear layer.
  int64_t peft_modules = 0, peft_parameters = 0;
};
std::vector<TargetMatch> target_matches(const ModelSpec& spec, const AdapterConfig& adapter);

}  // namespace forge
