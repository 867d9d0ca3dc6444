#pragma once
// Which linear layers an adapter changes, and what of the vocabulary's matrices.
//
//   for (const AdapterSite& site : adapter_sites(spec, job.adapter)) site.module;   // "model.layers.0.self_attn.q_proj"
#include <cstdint>
#include <string>
#include <vector>

#include "core/config/job.h"
#include "core/families/model_spec.h"

namespace forge {

// One adapted linear layer, or the experts of one in one tensor.
struct AdapterSite {
  std::string module;  // "model.layers.0.self_attn.q_proj"
  std::string adapter;  // what PEFT calls its adapter's module: the same, but for joined experts (name_joined_adapters)
  int64_t layer = -1;
  int64_t in_features = 0, out_features = 0;
  int64_t rank = 0;
  double alpha = 0;
  double scale = 0;  // alpha / rank, or alpha / sqrt(rank) with rslora
  int64_t experts = 0;  // that one tensor holds: A [experts · rank, in], B [out, rank · experts]; 0: a linear layer
};

// What an adapter changes of the embedding or of the head, whose matrix a step reads whole (core/adapter/whole_weight.h).
//
//   rank > 0   low-rank factors: W + scale · B A of the head, W + scale · (B A)ᵀ of the embedding
//   tokens     rows of these tokens that are trained themselves; a head that shares the embedding's weights has them too
struct VocabularySite {
  std::string module;  // "model.embed_tokens", "lm_head"
  bool embedding = false;
  int64_t vocabulary = 0, hidden = 0;
  int64_t rank = 0;
  double alpha = 0, scale = 0;
  std::vector<int64_t> tokens;  // in the order of the adapter's rows, which is the one of its settings

  // As PEFT names them; A is [rank, hidden] of the head and [rank, vocabulary] of the embedding, B the other way round.
  std::string a() const { return module + (embedding ? ".lora_embedding_A" : ".lora_A.weight"); }
  std::string b() const { return module + (embedding ? ".lora_embedding_B" : ".lora_B.weight"); }
  std::string rows() const { return module + ".token_adapter.trainable_tokens_delta"; }  // [tokens, hidden]: their values, not a difference
};

// At most one of each. Throws Error(job) as adapter_sites() does, and for what cannot be joined.
std::vector<VocabularySite> vocabulary_sites(const ModelSpec& spec, const AdapterConfig& adapter);

// The modules that an adapter changes, by PEFT's rules: "all-linear" is every linear but the head; a name
// matches the whole path or its end after a dot; a regex must match the whole path; rank_pattern and
// alpha_pattern keys match as regexes anchored at the end on a dot boundary, and the first that does counts. Throws Error(job)
// naming every target that matches nothing and the modules there are. Of an adapter that starts from a folder (init_from) such
// targets and patterns are passed over, as PEFT does, as long as one target matches.
std::vector<AdapterSite> adapter_sites(const ModelSpec& spec, const AdapterConfig& adapter);

// Both at once.
struct AdapterPlaces {
  std::vector<AdapterSite> sites;
  std::vector<VocabularySite> vocabulary;
};
AdapterPlaces adapter_places(const ModelSpec& spec, const AdapterConfig& adapter);

// Throws Error(job) where an adapter changes joined experts, which forge can train with and not write into other files.
void refuse_joined_experts(const std::vector<AdapterSite>& sites, const std::string& folder);

// How many modules each target matches, for the plan's table: "q_proj" → 32.
struct TargetMatch {
  std::string target;
  int64_t modules = 0;
};
std::vector<TargetMatch> target_matches(const ModelSpec& spec, const AdapterConfig& adapter);

}  // namespace forge
