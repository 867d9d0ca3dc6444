// Qwen2 (Yang et al., 2024) and Qwen3 (2025): Llama's layer with biases on q, k and v, or with
// norms on the heads of q and k.
//
// Qwen2-MoE (2024) and Qwen3-MoE (2025): these layers with experts in place of the MLP, in all
// layers or some. Qwen2-MoE has one more expert, with a gate of its own, for every token. In
// Qwen3-VL's mixture the experts of a layer are joined.
#include <algorithm>

#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "kernels/experts/experts_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rows/rows_op.h"

namespace forge::qwen {
namespace {

constexpr int64_t kWindow = 4096;

// Reads the window, which is there only if use_sliding_window is set. Returns max_window_layers.
int64_t read_window(Settings& settings, ModelSpec& spec) {
  const int64_t window = window_setting(settings, kWindow),
                first = settings.integer("max_window_layers", 0, 1 << 20, 28);
  spec.sliding_window = settings.flag("use_sliding_window", false) ? window : 0;
  return first;
}

// Windows begin at layer max_window_layers.
void read_dense_windows(Settings& settings, ModelSpec& spec) {
  const int64_t first = read_window(settings, spec);
  read_layer_types(settings, spec, [first](int64_t layer) { return layer < first; });
}

void read_qwen2(Settings& settings, ModelSpec& spec) {
  spec.qkv_bias = true;
  read_dense_windows(settings, spec);
}

void read_qwen3(Settings& settings, ModelSpec& spec) {
  spec.qk_norm = true;
  if (!settings.has("head_dim")) spec.head_dim = 128;
  read_dense_windows(settings, spec);
}

void write_dense(const ModelSpec& spec, Json& config) {
  config["use_sliding_window"] = spec.sliding_window > 0;
  write_window(spec, config);
  if (spec.sliding_window > 0) write_layer_types(spec, config);
}

// ---- with experts

constexpr ExpertNames kNames{"mlp.gate", "mlp.experts.", ".gate_proj", ".up_proj", ".down_proj"};

// Every `decoder_sparse_step`-th layer has experts, except those of mlp_only_layers.
void read_dense_layers(Settings& settings, ModelSpec& spec) {
  const int64_t step = settings.integer("decoder_sparse_step", 1, 1 << 20, 1);
  const std::vector<int64_t> only = settings.ids("mlp_only_layers");
  for (int64_t layer = 0; layer < spec.num_layers; ++layer)
    if ((layer + 1) % step != 0 || std::count(only.begin(), only.end(), layer) > 0) spec.dense_layers.push_back(layer);
}

void read_experts(Settings& settings, ModelSpec& spec, int64_t experts, int64_t per_token, int64_t size) {
  spec.num_experts = settings.integer("num_experts", 1, kMostExperts, experts);
  read_router(settings, spec, per_token);
  spec.expert_size = settings.integer("moe_intermediate_size", 1, kMostIntermediate, size);
  spec.normalise_experts = settings.flag("norm_topk_prob", false);
  read_dense_layers(settings, spec);
}

void read_qwen2_moe(Settings& settings, ModelSpec& spec) {
  spec.qkv_bias = settings.flag("qkv_bias", true);
  read_mixture(settings, spec, {60, 4, 1408, 5632});
  // Every other one of the first max_window_layers layers has a window.
  const int64_t first = read_window(settings, spec);
  read_layer_types(settings, spec, [first](int64_t layer) { return layer % 2 != 0 || layer >= first; });
}

void read_qwen3_moe(Settings& settings, ModelSpec& spec) {
  spec.qkv_bias = spec.o_bias = settings.flag("attention_bias", false);
  spec.qk_norm = true;
  read_experts(settings, spec, 128, 8, 768);
  const int64_t window = window_setting(settings, kWindow);
  spec.sliding_window = settings.flag("use_sliding_window", false) ? window : 0;
  read_layer_types(settings, spec, [](int64_t) { return false; });
}

// In older files a token's experts together are as wide as the MLP (llama.cpp's qwen2moe.cpp and
// qwen3moe.cpp).
void read_qwen3_moe_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  if (!settings.has(".expert_feed_forward_length")) spec.expert_size = spec.intermediate_size / std::max<int64_t>(spec.experts_per_token, 1);
}

// llama.cpp does not normalise the weights of Qwen2-MoE's experts. Its shared expert is as wide as
// the MLP unless the file states its size.
void read_qwen2_moe_gguf(Settings& settings, ModelSpec& spec) {
  read_qwen3_moe_gguf(settings, spec);
  spec.normalise_experts = false;
  spec.shared_expert_size = settings.integer(".expert_shared_feed_forward_length", 1, kMostIntermediate, spec.intermediate_size);
}

void write_experts(const ModelSpec& spec, Json& config) {
  write_mixture(spec, config);
  config["use_sliding_window"] = spec.sliding_window > 0;
  write_window(spec, config);
  write_router(spec, config);
}

void write_qwen2_moe(const ModelSpec& spec, Json& config) {
  write_experts(spec, config);
  config["qkv_bias"] = spec.qkv_bias;
  config["shared_expert_intermediate_size"] = spec.shared_expert_size;
  if (spec.sliding_window > 0) write_layer_types(spec, config);
}

void write_qwen3_moe(const ModelSpec& spec, Json& config) {
  write_experts(spec, config);
  config["attention_bias"] = spec.qkv_bias;
}

ValueId shared_expert(Recorder& g, const ModelSpec& m, ValueId x) {
  const ValueId y = gated_mlp(g, m, x, {"mlp.shared_expert", m.shared_expert_size});
  return gate_rows(g, y, linear(g, x, {"mlp.shared_expert_gate", 1}));
}

ValueId moe_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  h = add(g, h, self_attention(g, m, layer, norm(g, m, h, "input_layernorm")));
  return add(g, h, mlp(g, m, layer, norm(g, m, h, "post_attention_layernorm")));
}

}  // namespace

void read_mixture(Settings& settings, ModelSpec& spec, const MixtureSizes& absent) {
  read_experts(settings, spec, absent.experts, absent.per_token, absent.size);
  spec.shared_expert_size = settings.integer("shared_expert_intermediate_size", 1, kMostIntermediate, absent.shared_size);
}

void write_mixture(const ModelSpec& spec, Json& config) {
  config["num_experts"] = spec.num_experts;
  config["moe_intermediate_size"] = spec.expert_size;
  config["norm_topk_prob"] = spec.normalise_experts;
  config["mlp_only_layers"] = spec.dense_layers;
  config["decoder_sparse_step"] = 1;
}

ValueId mlp(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x) {
  if (m.dense(layer)) return gated_mlp(g, m, x);
  const ValueId routed = m.joined_experts ? joined_sparse_mlp(g, m, x, kNames.router, kNames.experts, route_rule(m))
                                          : sparse_mlp(g, m, x, kNames, route_rule(m));
  return m.shared_expert_size > 0 ? add(g, routed, shared_expert(g, m, x)) : routed;
}

Family qwen2_family() {
  return {.name = "qwen2",
          .architecture = "Qwen2ForCausalLM",
          .gguf_architecture = "qwen2",
          .wrapped_gguf = {"qwen2vl"},
          .max_position_embeddings = 32768,
          .num_kv_heads = 32,
          .read = read_qwen2,
          .write = write_dense,
          .read_gguf = refuse_window};
}

Family qwen3_family() {
  Family family = qwen2_family();
  family.name = "qwen3";
  family.architecture = "Qwen3ForCausalLM";
  family.gguf_architecture = "qwen3";
  family.wrapped_gguf = {"qwen3vl"};
  family.flags = {kAttentionBias};
  family.read = read_qwen3;
  return family;
}

Family qwen2_moe_family() {
  return {.name = "qwen2_moe",
          .architecture = "Qwen2MoeForCausalLM",
          .gguf_architecture = "qwen2moe",
          .mixture = true,
          .max_position_embeddings = 32768,
          .num_kv_heads = 16,
          .read = read_qwen2_moe,
          .write = write_qwen2_moe,
          .read_gguf = read_qwen2_moe_gguf,
          .layer = moe_layer};
}

Family qwen3_moe_family() {
  Family family = qwen2_moe_family();
  family.name = "qwen3_moe";
  family.architecture = "Qwen3MoeForCausalLM";
  family.gguf_architecture = "qwen3moe";
  family.wrapped_gguf = {"qwen3vlmoe"};
  family.num_kv_heads = 4;
  family.read = read_qwen3_moe;
  family.write = write_qwen3_moe;
  family.read_gguf = read_qwen3_moe_gguf;
  return family;
}

}  // namespace forge::qwen
