// Hunyuan (Tencent, 2025): Llama's layer with norms on the heads of q and k after their rotation.
// Long contexts have a larger base of the angles. Larger models have experts beside one as wide as
// they that every token goes through.
#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rms_norm/norm_op.h"
#include "kernels/rope/rope_op.h"
#include "kernels/rows/rows_op.h"

namespace forge::hunyuan {
namespace {

ValueId attention_of_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x) {
  auto [q, k, v] = project_qkv(g, m, x);
  if (m.turns(layer)) {
    auto [q_turned, k_turned] = rope(g, q, k, heads_of(m), {});
    q = q_turned, k = k_turned;
  }
  q = head_norm(g, q, "self_attn.query_layernorm", m.head_dim, m.rms_norm_eps);
  k = head_norm(g, k, "self_attn.key_layernorm", m.head_dim, m.rms_norm_eps);
  return linear(g, attention(g, q, k, v, heads_of(m), attention_of(m, layer)),
                {"self_attn.o_proj", m.hidden_size, m.o_bias});
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  h = add(g, h, attention_of_layer(g, m, layer, norm(g, m, h, "input_layernorm")));
  return add(g, h, gated_mlp(g, m, norm(g, m, h, "post_attention_layernorm")));
}

// ---- with experts

constexpr ExpertNames kNames{"mlp.gate.wg", "mlp.experts.", ".gate_proj", ".up_proj", ".down_proj"};

// Published files list moe_topk layer by layer. The numbers must be equal here.
void read_per_layer(Settings& settings, ModelSpec& spec) {
  const Json* listed = settings.find("moe_topk");
  if (!listed || !listed->is_array()) return read_per_token(settings, spec, 1);
  const std::vector<int64_t> counts = settings.ids("moe_topk");
  if (static_cast<int64_t>(counts.size()) != spec.num_layers || counts.front() < 1 ||
      counts.front() > spec.num_experts)
    return settings.broken("moe_topk", "is not a list of num_hidden_layers numbers from 1 to " +
                                           std::to_string(spec.num_experts));
  spec.experts_per_token = counts.front();
  for (const int64_t count : counts)
    if (count != counts.front())
      return settings.unsupported(
          "moe_topk", "differs between layers, forge computes one number of experts a token");
}

void read_moe(Settings& settings, ModelSpec& spec) {
  spec.qk_norm = true;
  spec.num_experts = settings.integer("num_experts", 1, kMostExperts, 1);
  read_per_layer(settings, spec);
  spec.expert_size = spec.shared_expert_size = spec.intermediate_size;
  spec.normalise_experts = true;
}

void read_moe_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  spec.qk_norm = true;
  spec.shared_expert_size = settings.integer(".expert_shared_feed_forward_length", 1,
                                             kMostIntermediate, spec.intermediate_size);
  spec.intermediate_size = spec.expert_size;
  if (spec.shared_expert_size != spec.expert_size)
    settings.unsupported(".expert_shared_feed_forward_length",
                         "is not the width of an expert, " + std::to_string(spec.expert_size));
}

void write_moe(const ModelSpec& spec, Json& config) {
  config["num_experts"] = spec.num_experts;
  config["moe_topk"] = spec.experts_per_token;
}

ValueId moe_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  h = add(g, h, attention_of_layer(g, m, layer, norm(g, m, h, "input_layernorm")));
  const ValueId x = norm(g, m, h, "post_attention_layernorm");
  const ValueId routed = sparse_mlp(g, m, x, kNames, route_rule(m));
  return add(g, h, add(g, routed, gated_mlp(g, m, x, {"mlp.shared_mlp", m.shared_expert_size})));
}

}  // namespace

Family hunyuan_v1_dense_family() {
  return {.name = "hunyuan_v1_dense",
          .architecture = "HunYuanDenseV1ForCausalLM",
          .gguf_architecture = "hunyuan-dense",
          .max_position_embeddings = 2048,
          .norm_eps = 1e-5,
          .scaled_base = true,
          .flags = {kAttentionBias},
          .read_gguf = refuse_window,
          .layer = layer};
}

Family hunyuan_v1_moe_family() {
  return {.name = "hunyuan_v1_moe",
          .architecture = "HunYuanMoEV1ForCausalLM",
          .gguf_architecture = "hunyuan-moe",
          .mixture = true,
          .max_position_embeddings = 2048,
          .norm_eps = 1e-5,
          .scaled_base = true,
          .flags = {kAttentionBias},
          .read = read_moe,
          .write = write_moe,
          .read_gguf = read_moe_gguf,
          .layer = moe_layer};
}

}  // namespace forge::hunyuan
