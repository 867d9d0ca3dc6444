// The sparse MLP of several families: a router, experts of gated MLPs, and in some a shared one
// that every token goes through.
//
// Modules and their adapters are named as files name them: one for each matrix of each expert.
// transformers 5 joins experts in memory, and PEFT reads adapters of single experts and converts
// them (Mixtral, Qwen3-MoE: tried, with equal losses); transformers 4 and the files know no other
// names. PEFT 0.21 reads Qwen2-MoE's only with transformers 4: with 5 it converts nothing and
// refuses the router.
#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "kernels/experts/expert_linear_op.h"
#include "kernels/experts/experts_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/swiglu/glu_op.h"

namespace forge {

RouteRule route_rule(const ModelSpec& m) {
  return {.per_token = m.experts_per_token,
          .normalise = m.normalise_experts,
          .scale = m.expert_scale,
          .groups = m.expert_groups,
          .groups_per_token = m.groups_per_token,
          .balance = m.router_loss > 0};
}

ValueId sparse_mlp(Recorder& g, const ModelSpec& m, ValueId x, const ExpertNames& names) {
  return sparse_mlp(g, m, x, names, route_rule(m));
}

ValueId sparse_mlp(Recorder& g, const ModelSpec& m, ValueId x, const ExpertNames& names, const RouteRule& rule) {
  const Routing routing =
      route(g, linear(g, x, {names.router, m.num_experts, false, names.router_use}), rule, names.correction);
  const ValueId rows = dispatch(g, x, routing);
  const ValueId gate = expert_linear(g, rows, routing, names.experts, names.gate, m.expert_size),
                up = expert_linear(g, rows, routing, names.experts, names.up, m.expert_size);
  const ValueId down = expert_linear(g, glu(g, gate, up, GateKind::silu), routing, names.experts, names.down, m.hidden_size);
  return combine(g, down, routing);
}

void read_router(Settings& settings, ModelSpec& spec, int64_t per_token) {
  spec.experts_per_token = settings.integer("num_experts_per_tok", 1, kMostExperts, per_token);
  if (spec.experts_per_token > spec.num_experts)
    settings.broken("num_experts_per_tok", "is more than the number of experts, " + std::to_string(spec.num_experts));
  const double coefficient = settings.number("router_aux_loss_coef", 0, 1e6, 0.001);
  spec.router_loss = settings.flag("output_router_logits", false) ? coefficient : 0;
}

void write_router(const ModelSpec& spec, Json& config) {
  config["num_experts_per_tok"] = spec.experts_per_token;
  config["output_router_logits"] = spec.router_loss > 0;
  if (spec.router_loss > 0) config["router_aux_loss_coef"] = spec.router_loss;
}

}  // namespace forge
