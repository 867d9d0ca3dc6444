// OLMo 2 (OLMo Team, 2024): norms after attention and MLP instead of before them, and norms over
// all heads of q and of k at once. OLMo 3 (2025) adds layers with windows, whose rotary angles are
// not scaled.
#include "core/model/families/family.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rows/rows_op.h"

namespace forge {
namespace {

constexpr int64_t kWindow = 4096, kPeriod = 4;

void read_olmo2(Settings& settings, ModelSpec& spec) {
  spec.qkv_bias = spec.o_bias = settings.flag("attention_bias", false);
}

void read_olmo3(Settings& settings, ModelSpec& spec) {
  read_olmo2(settings, spec);
  read_periodic_windows(settings, spec, kWindow, kPeriod);
}

void write_olmo2(const ModelSpec& spec, Json& config) { config["attention_bias"] = spec.qkv_bias; }

void write_olmo3(const ModelSpec& spec, Json& config) {
  write_olmo2(spec, config);
  config["sliding_window"] = window_json(spec);
  config["layer_types"] = layer_types_json(spec);
  const double windows = spec.window_rope_theta > 0 ? spec.window_rope_theta : spec.rope.theta;
  config["rope_parameters"] = {{"full_attention", config["rope_parameters"]},
                               {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", windows}}}};
}

void read_gguf(GgufSettings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  spec.qk_norm = false;  // not of single heads
}

// llama.cpp scales the angles of full layers alone.
void read_olmo3_gguf(GgufSettings& settings, ModelSpec& spec) {
  spec.qk_norm = false;
  set_periodic_windows(settings, spec, kWindow, kPeriod);
  spec.window_rope_theta = settings.number("rope.freq_base_swa", 1, 1e12, spec.rope.theta);
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  const int64_t q_size = m.num_heads * m.head_dim, kv_size = m.num_kv_heads * m.head_dim;
  auto [q, k, v] = linear(g, h, {{"self_attn.q_proj", q_size, m.qkv_bias},
                                {"self_attn.k_proj", kv_size, m.qkv_bias},
                                {"self_attn.v_proj", kv_size, m.qkv_bias}});
  q = norm(g, m, q, "self_attn.q_norm");
  k = norm(g, m, k, "self_attn.k_norm");
  ValueId x = linear(g, attend(g, m, layer, q, k, v), {"self_attn.o_proj", m.hidden_size, m.o_bias});
  h = add(g, h, norm(g, m, x, "post_attention_layernorm"));
  return add(g, h, norm(g, m, gated_mlp(g, m, h), "post_feedforward_layernorm"));
}

}  // namespace

Family olmo2_family() {
  return {.name = "olmo2",
          .architecture = "Olmo2ForCausalLM",
          .gguf_architecture = "olmo2",
          .max_position_embeddings = 2048,
          .norm_eps = 1e-5,
          .read = read_olmo2,
          .write = write_olmo2,
          .read_gguf = read_gguf,
          .layer = layer};
}

Family olmo3_family() {
  return {.name = "olmo3",
          .architecture = "Olmo3ForCausalLM",
          .gguf_architecture = "olmo2",
          .gguf_windows = true,
          .max_position_embeddings = 2048,
          .norm_eps = 1e-5,
          .rope_theta = 500000,
          .window_rope_theta = 500000,
          .read = read_olmo3,
          .write = write_olmo3,
          .read_gguf = read_olmo3_gguf,
          .layer = layer};
}

}  // namespace forge
