// BLOOM (BigScience Workshop, 2022): layer norms with biases, one after the embedding too; q, k and
// v of each head side by side in one matrix; no positions but a bias of the scores, ALiBi (Press et
// al., 2021).
#include "core/model/families/family.h"
#include "kernels/latent/heads_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rows/rows_op.h"

namespace forge::bloom {
namespace {

void set_constants(ModelSpec& spec) {
  spec.layer_norm = spec.norm_bias = spec.qkv_bias = spec.o_bias = spec.mlp_bias = true;
  spec.alibi = true;
  spec.rope.partial_rotary_factor = 0;
}

void read(Settings& settings, ModelSpec& spec) {
  set_constants(spec);
  spec.num_kv_heads = spec.num_heads, spec.head_dim = spec.hidden_size / spec.num_heads;
  if (spec.num_heads * spec.head_dim != spec.hidden_size)
    settings.broken("num_attention_heads", "does not divide hidden_size");
  settings.must_be("apply_residual_connection_post_layernorm", false,
                   "the stream itself is added to");
  // They choose the order in which parts of a product are added up.
  settings.find("slow_but_exact"), settings.find("pretraining_tp");
}

void read_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  set_constants(spec);
}

void write(const ModelSpec&, Json& config) {
  for (const char* key :
       {"head_dim", "num_key_value_heads", "rope_parameters", "rope_theta", "intermediate_size"})
    config.erase(key);
}

// Norms the embeddings, as the first layer's first op.
ValueId normed_embeddings(Recorder& g, const ModelSpec& m, ValueId h) {
  g.enter_layer(0, "");
  h = in_stream_type(g, norm(g, m, h, "transformer.word_embeddings_layernorm"));
  g.enter_layer(0, std::string(outer_modules(m).layers) + "0.");
  return h;
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  if (layer == 0) h = normed_embeddings(g, m, h);
  const ValueId x = norm(g, m, h, "input_layernorm");
  auto [q, k, v] = regroup(
      g, linear(g, x, {"self_attention.query_key_value", 3 * m.hidden_size, true}), heads_of(m));
  h = add(g, h,
          linear(g, attend(g, m, layer, q, k, v), {"self_attention.dense", m.hidden_size, true}));
  return add(g, h,
             plain_mlp(g, m, norm(g, m, h, "post_attention_layernorm"), "mlp.dense_h_to_4h",
                       "mlp.dense_4h_to_h", ActivationKind::gelu_tanh));
}

}  // namespace

Family bloom_family() {
  return {.name = "bloom",
          .architecture = "BloomForCausalLM",
          .gguf_architecture = "bloom",
          .max_position_embeddings = 2048,
          .activation = "gelu_new",
          .norm_eps = 1e-5,
          .tied = true,
          .mlp_ratio = 4,
          .spelling = {{"rms_norm_eps", "layer_norm_epsilon"}},
          .modules = {.embedding = "transformer.word_embeddings",
                      .layers = "transformer.h.",
                      .final_norm = "transformer.ln_f"},
          .padding_row = false,
          .read = read,
          .write = write,
          .read_gguf = read_gguf,
          .layer = layer};
}

}  // namespace forge::bloom
