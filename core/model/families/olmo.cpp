// OLMo 2 (OLMo Team, 2024): norms after attention and MLP instead of before them, and norms over
// all heads of q and of k at once. OLMo 3 (2025) adds layers with windows, whose rotary angles are
// not scaled.
#include "core/model/families/family.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rows/rows_op.h"

namespace forge {
namespace {

constexpr int64_t kWindow = 4096, kPeriod = 4;

void read_olmo3(Settings& settings, ModelSpec& spec) {
  read_periodic_windows(settings, spec, kWindow, kPeriod);
}

void write_olmo3(const ModelSpec& spec, Json& config) {
  write_windows(spec, config);
  const double windows = spec.window_rope_theta > 0 ? spec.window_rope_theta : spec.rope.theta;
  config["rope_parameters"] = {{"full_attention", config["rope_parameters"]},
                               {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", windows}}}};
}

void read_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  spec.qk_norm = false;  // not of single heads
}

// llama.cpp scales the angles of full layers alone.
void read_olmo3_gguf(Settings& settings, ModelSpec& spec) {
  spec.qk_norm = false;
  set_periodic_windows(settings, spec, kWindow, kPeriod);
  spec.window_rope_theta = settings.number(".rope.freq_base_swa", 1, 1e12, spec.rope.theta);
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  auto [q, k, v] = project_qkv(g, m, h);
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
          .flags = {kAttentionBias},
          .read_gguf = read_gguf,
          .layer = layer};
}

Family olmo3_family() {
  Family family = olmo2_family();
  family.name = "olmo3";
  family.architecture = "Olmo3ForCausalLM";
  family.gguf_windows = true;
  family.rope_theta = family.window_rope_theta = 500000;
  family.read = read_olmo3;
  family.write = write_olmo3;
  family.read_gguf = read_olmo3_gguf;
  return family;
}

}  // namespace forge
