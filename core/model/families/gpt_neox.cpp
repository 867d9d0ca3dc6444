// GPT-NeoX (Black et al., 2022) and Pythia: q, k and v of each head side by side in one matrix,
// rotary positions on a part of each head, attention and MLP reading the same stream, layer norms
// and gelu.
#include "core/model/families/family.h"
#include "kernels/latent/heads_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rows/rows_op.h"

namespace forge::gpt_neox {
namespace {

void read(Settings& settings, ModelSpec& spec) {
  spec.layer_norm = spec.norm_bias = spec.mlp_bias = true;
  spec.tanh_gelu = settings.text("hidden_act", "gelu") != "gelu";
  if (spec.num_heads * spec.head_dim != spec.hidden_size)
    settings.broken("num_attention_heads", "does not divide hidden_size");
}

// llama.cpp does not read files without the biases.
void read_gguf(Settings& settings, ModelSpec& spec) {
  spec.layer_norm = spec.norm_bias = spec.qkv_bias = spec.o_bias = spec.mlp_bias = true;
  spec.parallel_residual = settings.flag(".use_parallel_residual", true);
}

void write(const ModelSpec& spec, Json& config) {
  if (spec.tanh_gelu) config["hidden_act"] = "gelu_fast";
}

ValueId attention(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x) {
  ValueId grouped = linear(g, x, {"attention.query_key_value", 3 * m.hidden_size, m.qkv_bias});
  auto [q, k, v] = regroup(g, grouped, heads_of(m));
  return linear(g, attend(g, m, layer, q, k, v), {"attention.dense", m.hidden_size, m.o_bias});
}

ValueId mlp(Recorder& g, const ModelSpec& m, ValueId x) {
  return plain_mlp(g, m, x, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h",
                   m.tanh_gelu ? ActivationKind::gelu_tanh : ActivationKind::gelu);
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  ValueId attended = attention(g, m, layer, norm(g, m, h, "input_layernorm"));
  if (!m.parallel_residual) h = add(g, h, attended);
  ValueId x = mlp(g, m, norm(g, m, h, "post_attention_layernorm"));
  if (m.parallel_residual) h = add(g, h, attended);
  return add(g, h, x);
}

}  // namespace

Family gpt_neox_family() {
  return {.name = "gpt_neox",
          .architecture = "GPTNeoXForCausalLM",
          .gguf_architecture = "gptneox",
          .max_position_embeddings = 2048,
          .activation = "gelu",
          .same_activations = {"gelu_fast", "gelu_new", "gelu_pytorch_tanh"},  // GPT-NeoX-20B's: one formula under three names
          .norm_eps = 1e-5,
          .partial_rotary = true,
          .partial_rotary_factor = 0.25,
          .spelling = {{"rms_norm_eps", "layer_norm_eps"},
                       {"rope_theta", "rotary_emb_base"},
                       {"partial_rotary_factor", "rotary_pct"}},
          .modules = {.embedding = "gpt_neox.embed_in",
                      .layers = "gpt_neox.layers.",
                      .final_norm = "gpt_neox.final_layer_norm",
                      .stored_head = "embed_out"},
          .flags = {{"attention_bias", true, kAttentionBiases},
                    {"use_parallel_residual", true, {&ModelSpec::parallel_residual}}},
          .read = read,
          .write = write,
          .read_gguf = read_gguf,
          .layer = layer};
}

}  // namespace forge::gpt_neox
