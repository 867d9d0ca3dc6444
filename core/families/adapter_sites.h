#pragma once
// Which linear layers an adapter changes.
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

// The modules that an adapter changes, by PEFT's rules: "all-linear" is every linear but the head; a name
// matches the whole path or its end after a dot; a regex must match the whole path; rank_pattern and
// alpha_pattern keys match as regexes anchored at the end on a dot boundary. Throws Error(job) naming every
// target that matches nothing and the modules there are.
std::vector<AdapterSite> adapter_sites(const ModelSpec& spec, const AdapterConfig& adapter);

// Throws Error(job) where an adapter changes joined experts, which forge can train with and not write into other files.
void refuse_joined_experts(const std::vector<AdapterSite>& sites, const std::string& folder);

// How many modules each target matches, for the plan's table: "q_proj" → 32.
struct TargetMatch {
  std::string target;
  int64_t modules = 0;
};
std::vector<TargetMatch> target_matches(const ModelSpec& spec, const AdapterConfig& adapter);

}  // namespace forge
