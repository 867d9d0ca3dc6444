// gpt-oss (OpenAI, 2025): Llama's attention with biases and sinks, and a window in every other
// layer. All experts of a layer are in one tensor, and their gates are clamped. The router has a
// bias and a softmax over the chosen experts.
//
// The joined tensor keeps the file's name and layout, and its adapter PEFT's (target_parameters: A
// and B of all experts in two matrices), so that files and gradients need no conversion. PEFT
// merges into such a tensor; forge leaves merging it to PEFT.
#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "kernels/experts/expert_linear_op.h"
#include "kernels/experts/experts_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/swiglu/glu_op.h"

namespace forge::gpt_oss {
namespace {

constexpr int64_t kWindow = 128;

// Default of transformers if config.json says nothing of positions.
RopeSpec silent_rope(double theta) {
  return {.type = RopeType::yarn, .theta = theta, .factor = 32, .original_max_position_embeddings = 4096, .truncate = false};
}

void read(Settings& settings, ModelSpec& spec) {
  spec.attention_sinks = true;
  spec.num_experts = settings.integer("num_local_experts", 1, kMostExperts, 128);
  read_router(settings, spec, 4);
  spec.expert_size = spec.intermediate_size;
  spec.gate_limit = settings.number("swiglu_limit", 1e-6, 1e6, 7);
  spec.gate_alpha = settings.number("swiglu_alpha", 1e-6, 1e6, 1.702);
  read_windows(settings, spec, kWindow, [](int64_t layer) { return layer % 2 != 0; });
  if (!settings.find("rope_scaling") && !settings.find("rope_parameters")) spec.rope = silent_rope(spec.rope.theta);
}

void write(const ModelSpec& spec, Json& config) {
  config["num_local_experts"] = spec.num_experts;
  config["swiglu_limit"] = spec.gate_limit;
  config["swiglu_alpha"] = spec.gate_alpha;
  write_windows(spec, config);
  write_router(spec, config);
}

ValueId experts(Recorder& g, const ModelSpec& m, ValueId x) {
  RouteRule rule = route_rule(m);
  rule.scores = RouteRule::Scores::chosen_softmax;
  const Routing routing = route(g, linear(g, x, {"mlp.router", m.num_experts, true, LinearUse::bare_router}), rule);
  const ValueId pairs = joined_expert_linear(g, dispatch(g, x, routing), routing,
                                             {"mlp.experts.gate_up_proj", 2 * m.expert_size, true});
  const ValueId gated = clamped_glu(g, pairs, m.gate_limit, m.gate_alpha);
  return combine(
      g, joined_expert_linear(g, gated, routing, {"mlp.experts.down_proj", m.hidden_size, true}),
      routing);
}

}  // namespace

Family gpt_oss_family() {
  return {.name = "gpt_oss",
          .architecture = "GptOssForCausalLM",
          .max_position_embeddings = 131072,
          .num_kv_heads = 8,
          .norm_eps = 1e-5,
          .rope_theta = 150000,
          .flags = {{"attention_bias", true, kAttentionBiases}},
          .read = read,
          .write = write,
          .mlp = experts};
}

}  // namespace forge::gpt_oss
