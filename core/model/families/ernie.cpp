// ERNIE 4.5 (Baidu, 2025): Llama's layer whose rotary positions turn neighbouring features. Larger
// models have experts beside shared ones, chosen by a softmax to which a correction is added.
#include <algorithm>

#include "core/model/families/config_spec.h"
#include "core/model/families/routed_experts.h"
#include "kernels/rows/rows_op.h"

namespace forge::ernie {
namespace {

void read(Settings& settings, ModelSpec& spec) {
  if (!settings.has("head_dim")) spec.head_dim = 128;
  spec.rope.interleaved = true;
}

void read_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  spec.rope.interleaved = true;
}

// ---- with experts

constexpr ExpertNames kNames{.router = "mlp.gate",
                             .experts = "mlp.experts.",
                             .gate = ".gate_proj",
                             .up = ".up_proj",
                             .down = ".down_proj",
                             .router_use = LinearUse::router,
                             .correction = "mlp.moe_statics.e_score_correction_bias",
                             .correction_rows = 1};

// Sets the layers that have an MLP: those outside [first, last], and those whose number, counted
// from one, `step` does not divide.
void set_dense_layers(ModelSpec& spec, int64_t first, int64_t last, int64_t step) {
  for (int64_t layer = 0; layer < spec.num_layers; ++layer)
    if ((layer + 1) % step != 0 || layer < first || layer > last)
      spec.dense_layers.push_back(layer);
}

void read_moe(Settings& settings, ModelSpec& spec) {
  spec.rope.interleaved = true;
  spec.num_experts = settings.integer("num_experts", 1, kMostExperts, 64);
  read_corrected_router(settings, spec, 6);
  spec.expert_size = settings.integer("moe_intermediate_size", 1, kMostIntermediate, 1536);
  spec.shared_expert_size =
      spec.expert_size * settings.integer("moe_num_shared_experts", 0, kMostExperts, 2);
  spec.normalise_experts = true;
  // transformers divides by at least moe_norm_min, which the sum of the chosen probabilities is
  // always above.
  settings.number("moe_norm_min", 0, 1e-6, 1e-12);
  const int64_t first = settings.integer("moe_layer_start_index", 0, kMostLayers, 1),
                last = settings.integer("moe_layer_end_index", -1, kMostLayers, -1);
  set_dense_layers(spec, first, last == -1 ? spec.num_layers : last,
                   settings.integer("moe_layer_interval", 1, kMostLayers, 1));
  settings.must_be("use_bias", false, "no biases, of which the head would have one");
}

void read_moe_gguf(Settings& settings, ModelSpec& spec) {
  read_gguf(settings, spec);
  set_dense_layers(spec, settings.integer(".leading_dense_block_count", 0, kMostLayers, 0),
                   spec.num_layers,
                   settings.integer(".interleave_moe_layer_step", 1, kMostLayers, 1));
  spec.shared_expert_size =
      settings.integer(".expert_shared_feed_forward_length", 0, kMostIntermediate, 0);
  settings.find(".expert_shared_count");
}

// Writes each layer's kind as a range of layers and a step, which describe what read_moe() makes.
void write_moe(const ModelSpec& spec, Json& config) {
  std::vector<int64_t> sparse;
  for (int64_t layer = 0; layer < spec.num_layers; ++layer)
    if (!spec.dense(layer)) sparse.push_back(layer);
  config["moe_layer_start_index"] = sparse.empty() ? spec.num_layers : sparse.front();
  config["moe_layer_end_index"] = sparse.empty() ? spec.num_layers : sparse.back();
  config["moe_layer_interval"] = sparse.size() > 1 ? sparse[1] - sparse[0]
                                 : sparse.empty()  ? 1
                                                   : sparse[0] + 1;
  config["moe_num_experts"] = spec.num_experts;
  config["moe_intermediate_size"] = spec.expert_size;
  config["moe_num_shared_experts"] = spec.shared_expert_size / spec.expert_size;
  write_router(spec, config);
  config["moe_k"] = config["num_experts_per_tok"];
  config.erase("num_experts_per_tok");
}

ValueId moe_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  h = add(g, h, self_attention(g, m, layer, norm(g, m, h, "input_layernorm")));
  const ValueId x = norm(g, m, h, "post_attention_layernorm");
  return add(g, h, routed_mlp(g, m, layer, x, kNames, route_rule(m)));
}

}  // namespace

Family ernie4_5_family() {
  return {.name = "ernie4_5",
          .architecture = "Ernie4_5ForCausalLM",
          .gguf_architecture = "ernie4_5",
          .max_position_embeddings = 131072,
          .num_kv_heads = 2,
          .norm_eps = 1e-5,
          .rope_theta = 500000,
          .tied = true,
          .flags = {{"use_bias", false, kAllBiases}},
          .read = read,
          .read_gguf = read_gguf};
}

Family ernie4_5_moe_family() {
  return {.name = "ernie4_5_moe",
          .architecture = "Ernie4_5_MoeForCausalLM",
          .gguf_architecture = "ernie4_5-moe",
          .mixture = true,
          .max_position_embeddings = 131072,
          .num_kv_heads = 4,
          .norm_eps = 1e-5,
          .rope_theta = 500000,
          .tied = true,
          .read = read_moe,
          .write = write_moe,
          .read_gguf = read_moe_gguf,
          .layer = moe_layer};
}

}  // namespace forge::ernie
