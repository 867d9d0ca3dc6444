#pragma once
// Experts as DeepSeek arranges them, and Llama-like families after it: chosen within groups of
// experts, beside experts that every token goes through, in all layers but the first few.
//
//   read_routed_experts(settings, spec, {.dense = 1, .experts = 128, .shared = 1, .size = 1408});
//   read_routed_choice(settings, spec, {.groups = 1, .groups_per_token = 1, .per_token = 8});
//   …
//   h = add(g, h, routed_mlp(g, m, layer, x, kRoutedNames, route_rule(m)));
#include <optional>

#include "core/model/families/family.h"

namespace forge {

// Hold the defaults of a class. A key without one is required in config.json.
struct RoutedExperts {
  int64_t dense = 0;  // layers with an MLP before the first experts
  std::optional<int64_t> experts, shared, size;
  double scale = 1;
};
struct RoutedChoice {
  int64_t groups = 1, groups_per_token = 1;
  std::optional<int64_t> per_token;
  bool normalise = true;
};

constexpr ExpertNames kRoutedNames{"mlp.gate", "mlp.experts.", ".gate_proj",
                                   ".up_proj", ".down_proj",   LinearUse::bare_router};
// Like kRoutedNames, for routers with a correction of their scores.
constexpr ExpertNames kCorrectedNames{"mlp.gate",
                                      "mlp.experts.",
                                      ".gate_proj",
                                      ".up_proj",
                                      ".down_proj",
                                      LinearUse::bare_router,
                                      "mlp.gate.e_score_correction_bias"};

// Reads n_routed_experts, moe_intermediate_size, n_shared_experts, routed_scaling_factor and
// first_k_dense_replace.
void read_routed_experts(Settings& settings, ModelSpec& spec, const RoutedExperts& defaults);
// Reads n_group and topk_group, after num_experts_per_tok.
void read_groups(Settings& settings, ModelSpec& spec, int64_t groups, int64_t per_token);
// Reads num_experts_per_tok, norm_topk_prob and the groups of a router with sigmoid scores, which
// ranks a group by its two best experts.
void read_routed_choice(Settings& settings, ModelSpec& spec, const RoutedChoice& defaults);
// Writes what the functions above read.
void write_routed_experts(const ModelSpec& spec, Json& config);

// Returns the rule of a router with sigmoid scores: route_rule() with groups as good as their two
// best experts.
RouteRule sigmoid_rule(const ModelSpec& m);
// x → the MLP of a dense layer; elsewhere the sum of the token's experts and of
// mlp.shared_experts, if there are any
ValueId routed_mlp(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x,
                   const ExpertNames& names, const RouteRule& rule);

}  // namespace forge
