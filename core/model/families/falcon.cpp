// Falcon (Almazrouei et al., 2023): q, k and v in one matrix, group by group; attention and MLP
// read the same stream, through one norm or each through its own; layer norms and gelu.
#include "core/model/families/family.h"
#include "kernels/latent/heads_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rows/rows_op.h"

namespace forge::falcon {
namespace {

void read(Settings& settings, ModelSpec& spec) {
  spec.layer_norm = spec.norm_bias = true;
  const bool grouped = settings.flag("new_decoder_architecture", false);
  if (!settings.flag("multi_query", true))
    spec.num_kv_heads = grouped ? spec.num_kv_heads : spec.num_heads;
  else if (!grouped)
    spec.num_kv_heads = 1;
  spec.parallel_residual = settings.flag("parallel_attn", true);
  const Json* norms = settings.find("num_ln_in_parallel_attn");
  spec.norms_apart = grouped && spec.parallel_residual && (!norms || *norms == 2);
  if (norms && *norms != 1 && !(grouped && *norms == 2))
    settings.unsupported("num_ln_in_parallel_attn", "is not 1, or 2 together with new_decoder_architecture");
  if (grouped && !spec.parallel_residual) settings.unsupported("parallel_attn", "is false, together with new_decoder_architecture");
  if (spec.num_heads * spec.head_dim != spec.hidden_size) settings.broken("num_attention_heads", "does not divide hidden_size");
  settings.must_be("alibi", false, "rotary positions");
  settings.must_be("n_embed", spec.hidden_size, "the width that hidden_size gives");
}

// llama.cpp computes attention and MLP in parallel, without biases.
void read_gguf(Settings& settings, ModelSpec& spec) {
  settings.must_be(".tensor_data_layout", "jploski", "all rows of q before those of k and of v");
  spec.layer_norm = spec.norm_bias = spec.parallel_residual = true;
}

// Writes the older spelling for one head of k and v, or for as many as q has.
void write(const ModelSpec& spec, Json& config) {
  const bool one = spec.num_kv_heads == 1, all = spec.num_kv_heads == spec.num_heads;
  config["alibi"] = false;
  config["parallel_attn"] = spec.parallel_residual;
  config["new_decoder_architecture"] = !one && !all;
  config["multi_query"] = one;
  if (spec.parallel_residual) config["num_ln_in_parallel_attn"] = spec.norms_apart ? 2 : 1;
}

ValueId attention(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x) {
  const int64_t width = (m.num_heads + 2 * m.num_kv_heads) * m.head_dim;
  auto [q, k, v] = regroup(g, linear(g, x, {"self_attention.query_key_value", width, m.qkv_bias}), heads_of(m));
  return linear(g, attend(g, m, layer, q, k, v), {"self_attention.dense", m.hidden_size, m.o_bias});
}

ValueId mlp(Recorder& g, const ModelSpec& m, ValueId x) {
  return plain_mlp(g, m, x, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", ActivationKind::gelu);
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  if (m.norms_apart) {
    const ValueId attended = attention(g, m, layer, norm(g, m, h, "ln_attn"));
    return add(g, add(g, h, attended), mlp(g, m, norm(g, m, h, "ln_mlp")));
  }
  ValueId x = norm(g, m, h, "input_layernorm");
  ValueId attended = attention(g, m, layer, x);
  if (!m.parallel_residual) {
    h = add(g, h, attended);
    return add(g, h, mlp(g, m, norm(g, m, h, "post_attention_layernorm")));
  }
  ValueId changed = mlp(g, m, x);
  return add(g, add(g, h, attended), changed);
}

}  // namespace

Family falcon_family() {
  return {.name = "falcon",
          .architecture = "FalconForCausalLM",
          .gguf_architecture = "falcon",
          .max_position_embeddings = 2048,
          .activation = "gelu",
          .norm_eps = 1e-5,
          .tied = true,
          .mlp_ratio = 4,
          .spelling = {{"rms_norm_eps", "layer_norm_epsilon"},
                       {"intermediate_size", "ffn_hidden_size"},
                       {"num_key_value_heads", "num_kv_heads"},
                       {"hidden_act", "activation"}},
          .modules = {.embedding = "transformer.word_embeddings", .layers = "transformer.h.", .final_norm = "transformer.ln_f"},
          .flags = {{"bias", false, kAllBiases}},
          .read = read,
          .write = write,
          .read_gguf = read_gguf,
          .layer = layer};
}

}  // namespace forge::falcon
