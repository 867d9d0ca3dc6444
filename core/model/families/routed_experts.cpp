#include "core/model/families/routed_experts.h"

#include <algorithm>
#include <numeric>

#include "core/model/families/config_spec.h"
#include "kernels/rows/rows_op.h"

namespace forge {

void read_routed_experts(Settings& settings, ModelSpec& spec, const RoutedExperts& defaults) {
  spec.num_experts = settings.integer("n_routed_experts", 1, kMostExperts, defaults.experts);
  spec.expert_size = settings.integer("moe_intermediate_size", 1, kMostIntermediate, defaults.size);
  spec.shared_expert_size =
      spec.expert_size * settings.integer("n_shared_experts", 1, kMostExperts, defaults.shared);
  spec.expert_scale = settings.number("routed_scaling_factor", 1e-9, 1e9, defaults.scale);
  spec.dense_layers.resize(static_cast<size_t>(std::min(
      spec.num_layers, settings.integer("first_k_dense_replace", 0, kMostLayers, defaults.dense))));
  std::iota(spec.dense_layers.begin(), spec.dense_layers.end(), int64_t{0});
}

void read_groups(Settings& settings, ModelSpec& spec, int64_t groups, int64_t per_token) {
  spec.expert_groups = settings.integer("n_group", 1, kMostExperts, groups);
  spec.groups_per_token = settings.integer("topk_group", 1, kMostExperts, per_token);
  if (spec.num_experts % spec.expert_groups != 0 || spec.groups_per_token > spec.expert_groups)
    return settings.broken(
        "n_group", "does not divide the experts into groups of which topk_group are chosen");
  if (spec.experts_per_token > spec.num_experts / spec.expert_groups * spec.groups_per_token)
    settings.broken("num_experts_per_tok", "is more than the experts of topk_group groups");
}

void read_routed_choice(Settings& settings, ModelSpec& spec, const RoutedChoice& defaults) {
  spec.experts_per_token =
      settings.integer("num_experts_per_tok", 1, spec.num_experts, defaults.per_token);
  spec.normalise_experts = settings.flag("norm_topk_prob", defaults.normalise);
  read_groups(settings, spec, defaults.groups, defaults.groups_per_token);
  if (spec.num_experts / std::max<int64_t>(spec.expert_groups, 1) < 2)
    settings.broken("n_group", "leaves fewer than two experts to a group");
}

void write_routed_experts(const ModelSpec& spec, Json& config) {
  config["n_routed_experts"] = spec.num_experts;
  config["num_experts_per_tok"] = spec.experts_per_token;
  config["moe_intermediate_size"] = spec.expert_size;
  if (spec.shared_expert_size > 0)
    config["n_shared_experts"] = spec.shared_expert_size / spec.expert_size;
  config["first_k_dense_replace"] = static_cast<int64_t>(spec.dense_layers.size());
  config["routed_scaling_factor"] = spec.expert_scale;
  config["n_group"] = spec.expert_groups;
  config["topk_group"] = spec.groups_per_token;
  config["norm_topk_prob"] = spec.normalise_experts;
}

RouteRule sigmoid_rule(const ModelSpec& m) {
  RouteRule rule = route_rule(m);
  rule.scores = RouteRule::Scores::sigmoid, rule.group_best = 2;
  return rule;
}

ValueId routed_mlp(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x,
                   const ExpertNames& names, const RouteRule& rule) {
  if (m.dense(layer)) return gated_mlp(g, m, x);
  const ValueId routed = sparse_mlp(g, m, x, names, rule);
  if (m.shared_expert_size == 0) return routed;
  return add(g, routed,
             gated_mlp(g, m, x, {"mlp.shared_experts", m.shared_expert_size, m.mlp_bias}));
}

}  // namespace forge
