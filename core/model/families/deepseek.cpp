// DeepSeek-V2 and V3 (DeepSeek-AI, 2024): latent attention, where k and v of all heads are made
// from one narrow vector of a token and the rotated part of k is shared by all heads; experts
// beside shared ones, after a few layers with an MLP.
#include <cmath>
#include <numeric>

#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "kernels/latent/heads_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rms_norm/norm_op.h"
#include "kernels/rows/rows_op.h"

namespace forge {
namespace {

constexpr double kLatentEps = 1e-6;  // epsilon of the latents' norms, whatever rms_norm_eps says
constexpr ExpertNames kNames{"mlp.gate", "mlp.experts.", ".gate_proj", ".up_proj", ".down_proj", LinearUse::bare_router};

// YaRN sharpens the scores too (transformers: yarn_apply_mscale).
double score_scale(const ModelSpec& spec) {
  const double plain = 1 / std::sqrt(static_cast<double>(spec.head_dim));
  if (spec.rope.mscale_all_dim == 0 || spec.rope.factor <= 1) return plain;
  const double mscale = 0.1 * spec.rope.mscale_all_dim * std::log(spec.rope.factor) + 1;
  return plain * mscale * mscale;
}

void read_latent_attention(Settings& settings, ModelSpec& spec) {
  const bool whole = settings.has("q_lora_rank") && !settings.find("q_lora_rank");
  spec.q_latent = whole ? 0 : settings.integer("q_lora_rank", 1, kMostHidden, 1536);
  spec.kv_latent = settings.integer("kv_lora_rank", 1, kMostHidden, 512);
  spec.rope_head_dim = settings.integer("qk_rope_head_dim", 2, kMostHeadDim, 64);
  spec.value_head_dim = settings.integer("v_head_dim", 1, kMostHeadDim, 128);
  spec.head_dim = spec.rope_head_dim + settings.integer("qk_nope_head_dim", 1, kMostHeadDim, 128);
  if (spec.rope_head_dim % 2 != 0) settings.broken("qk_rope_head_dim", "is not an even number");
  if (spec.value_head_dim > spec.head_dim)
    settings.unsupported("v_head_dim", "is more than a head of q and k has, " + std::to_string(spec.head_dim));
  spec.num_kv_heads = spec.num_heads;
  spec.qkv_bias = spec.o_bias = settings.flag("attention_bias", false);
  spec.attention_scale = score_scale(spec);
}

void read_experts(Settings& settings, ModelSpec& spec, int64_t dense, int64_t experts, int64_t shared, int64_t size, double scale) {
  spec.num_experts = settings.integer("n_routed_experts", 1, kMostExperts, experts);
  spec.expert_size = settings.integer("moe_intermediate_size", 1, kMostIntermediate, size);
  spec.shared_expert_size = spec.expert_size * settings.integer("n_shared_experts", 1, kMostExperts, shared);
  spec.expert_scale = settings.number("routed_scaling_factor", 1e-9, 1e9, scale);
  spec.dense_layers.resize(static_cast<size_t>(std::min(spec.num_layers, settings.integer("first_k_dense_replace", 0, kMostLayers, dense))));
  std::iota(spec.dense_layers.begin(), spec.dense_layers.end(), int64_t{0});
}

void read_groups(Settings& settings, ModelSpec& spec, int64_t groups, int64_t per_token) {
  spec.expert_groups = settings.integer("n_group", 1, kMostExperts, groups);
  spec.groups_per_token = settings.integer("topk_group", 1, kMostExperts, per_token);
  if (spec.num_experts % spec.expert_groups != 0 || spec.groups_per_token > spec.expert_groups)
    return settings.broken("n_group", "does not divide the experts into groups of which topk_group are chosen");
  if (spec.experts_per_token > spec.num_experts / spec.expert_groups * spec.groups_per_token)
    settings.broken("num_experts_per_tok", "is more than the experts of topk_group groups");
}

void read_v2(Settings& settings, ModelSpec& spec) {
  read_latent_attention(settings, spec);
  read_experts(settings, spec, 0, 64, 2, 1407, 1);
  spec.experts_per_token = settings.integer("num_experts_per_tok", 1, spec.num_experts);
  const std::string method = settings.text("topk_method", "greedy");
  if (method == "group_limited_greedy")
    read_groups(settings, spec, 1, 1);
  else if (method != "greedy")
    settings.unsupported("topk_method", "is \"" + method + "\", forge computes greedy and group_limited_greedy");
  for (const char* key : {"n_group", "topk_group"}) settings.find(key);
  settings.must_be("mlp_bias", false, "no biases in MLPs");
  spec.rope.interleaved = true;
}

void read_v3(Settings& settings, ModelSpec& spec) {
  read_latent_attention(settings, spec);
  read_experts(settings, spec, 3, 256, 1, 2048, 2.5);
  spec.experts_per_token = settings.integer("num_experts_per_tok", 1, spec.num_experts, 8);
  spec.normalise_experts = settings.flag("norm_topk_prob", true);
  read_groups(settings, spec, 8, 4);
  if (spec.num_experts / std::max<int64_t>(spec.expert_groups, 1) < 2) settings.broken("n_group", "leaves fewer than two experts to a group");
  spec.rope.interleaved = settings.flag("rope_interleave", true);
}

void write(const ModelSpec& spec, Json& config) {
  config["q_lora_rank"] = spec.q_latent > 0 ? Json(spec.q_latent) : Json(nullptr);
  config["kv_lora_rank"] = spec.kv_latent;
  config["qk_rope_head_dim"] = config["head_dim"] = spec.rope_head_dim;
  config["qk_nope_head_dim"] = spec.head_dim - spec.rope_head_dim;
  config["v_head_dim"] = spec.value_head_dim;
  config["attention_bias"] = spec.qkv_bias;
  config["n_routed_experts"] = spec.num_experts;
  config["num_experts_per_tok"] = spec.experts_per_token;
  config["moe_intermediate_size"] = spec.expert_size;
  config["n_shared_experts"] = spec.shared_expert_size / spec.expert_size;
  config["first_k_dense_replace"] = static_cast<int64_t>(spec.dense_layers.size());
  config["routed_scaling_factor"] = spec.expert_scale;
  config["n_group"] = spec.expert_groups;
  config["topk_group"] = spec.groups_per_token;
  config["norm_topk_prob"] = spec.normalise_experts;
}

void write_v2(const ModelSpec& spec, Json& config) {
  write(spec, config);
  config["topk_method"] = spec.expert_groups > 1 ? "group_limited_greedy" : "greedy";
}

void write_v3(const ModelSpec& spec, Json& config) {
  write(spec, config);
  config["rope_interleave"] = spec.rope.interleaved;
}

ValueId latent_attention(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x) {
  const int64_t still = m.head_dim - m.rope_head_dim, width = m.num_heads * m.head_dim;
  const LatentSizes heads{m.num_heads, m.head_dim, m.rope_head_dim, m.value_head_dim};
  ValueId q = x;
  if (m.q_latent > 0) q = norm(g, linear(g, x, {"self_attn.q_a_proj", m.q_latent, m.qkv_bias}), "self_attn.q_a_layernorm", kLatentEps);
  q = linear(g, q, {m.q_latent > 0 ? "self_attn.q_b_proj" : "self_attn.q_proj", width});
  auto [latent, key] = g.split(linear(g, x, {"self_attn.kv_a_proj_with_mqa", m.kv_latent + m.rope_head_dim, m.qkv_bias}),
                               {m.kv_latent, m.rope_head_dim});
  const ValueId kv = linear(g, norm(g, latent, "self_attn.kv_a_layernorm", kLatentEps),
                              {"self_attn.kv_b_proj", m.num_heads * (still + m.value_head_dim)});
  auto [q_heads, k_heads, v_heads] = latent_heads(g, q, kv, key, heads);
  const ValueId mixed = attend(g, m, layer, q_heads, k_heads, v_heads);
  return linear(g, trim_heads(g, mixed, heads), {"self_attn.o_proj", m.hidden_size, m.o_bias});
}

ValueId layer_with(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h, const ExpertNames& names, const RouteRule& rule) {
  h = add(g, h, latent_attention(g, m, layer, norm(g, m, h, "input_layernorm")));
  const ValueId x = norm(g, m, h, "post_attention_layernorm");
  if (m.dense(layer)) return add(g, h, gated_mlp(g, m, x));
  const ValueId routed = sparse_mlp(g, m, x, names, rule);
  return add(g, h,
             add(g, routed, gated_mlp(g, m, x, {"mlp.shared_experts", m.shared_expert_size})));
}

ValueId v2_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  return layer_with(g, m, layer, h, kNames, route_rule(m));
}

ValueId v3_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  ExpertNames names = kNames;
  names.correction = "mlp.gate.e_score_correction_bias";
  RouteRule rule = route_rule(m);
  rule.scores = RouteRule::Scores::sigmoid, rule.group_best = 2;
  return layer_with(g, m, layer, h, names, rule);
}

}  // namespace

Family deepseek_v2_family() {
  return {.name = "deepseek_v2",
          .architecture = "DeepseekV2ForCausalLM",
          .max_position_embeddings = 2048,
          .read = read_v2,
          .write = write_v2,
          .layer = v2_layer};
}

Family deepseek_v3_family() {
  Family family = deepseek_v2_family();
  family.name = "deepseek_v3";
  family.architecture = "DeepseekV3ForCausalLM";
  family.max_position_embeddings = 4096;
  family.further_layers = true;
  family.read = read_v3;
  family.write = write_v3;
  family.layer = v3_layer;
  return family;
}

}  // namespace forge
