// GPT-2 (Radford et al., 2019): learned positions, layer norms with biases, q, k and v in one
// matrix, an MLP without a gate. Its linear layers are Conv1D in transformers: files hold them
// transposed.
#include "core/model/families/family.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rows/rows_op.h"

namespace forge::gpt2 {
namespace {

void set_constants(ModelSpec& spec) {
  spec.layer_norm = spec.norm_bias = spec.qkv_bias = spec.o_bias = spec.mlp_bias = true;
  spec.learned_positions = true;
  spec.rope.partial_rotary_factor = 0;
}

void read(Settings& settings, ModelSpec& spec) {
  set_constants(spec);
  spec.num_kv_heads = spec.num_heads, spec.head_dim = spec.hidden_size / spec.num_heads;
  if (spec.num_heads * spec.head_dim != spec.hidden_size) settings.broken("num_attention_heads", "does not divide hidden_size");
  settings.must_be("scale_attn_weights", true, "scores by 1 / sqrt(head_dim)");
  settings.must_be("scale_attn_by_inverse_layer_idx", false, "the same scale in every layer");
  settings.must_be("add_cross_attention", false, "a decoder alone");
  settings.find("reorder_and_upcast_attn");  // the precision of scores, which are fp32 here
}

void read_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  set_constants(spec);
}

void write(const ModelSpec&, Json& config) {
  for (const char* key : {"head_dim", "num_key_value_heads", "rope_parameters", "rope_theta"}) config.erase(key);
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) config[key] = 0.0;
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  const int64_t width = m.hidden_size;
  auto [q, k, v] = g.split(linear(g, norm(g, m, h, "ln_1"), {"attn.c_attn", 3 * width, true}), {width, width, width});
  h = add(g, h, linear(g, attend(g, m, layer, q, k, v), {"attn.c_proj", width, true}));
  return add(
      g, h,
      plain_mlp(g, m, norm(g, m, h, "ln_2"), "mlp.c_fc", "mlp.c_proj", ActivationKind::gelu_tanh));
}

}  // namespace

Family gpt2_family() {
  return {.name = "gpt2",
          .architecture = "GPT2LMHeadModel",
          .gguf_architecture = "gpt2",
          .max_position_embeddings = 1024,
          .activation = "gelu_new",
          .same_activations = {"gelu_pytorch_tanh"},
          .norm_eps = 1e-5,
          .tied = true,
          .mlp_ratio = 4,
          .spelling = {{"hidden_size", "n_embd"},
                       {"num_hidden_layers", "n_layer"},
                       {"num_attention_heads", "n_head"},
                       {"max_position_embeddings", "n_positions"},
                       {"intermediate_size", "n_inner"},
                       {"hidden_act", "activation_function"},
                       {"rms_norm_eps", "layer_norm_epsilon"}},
          .modules = {.embedding = "transformer.wte",
                      .positions = "transformer.wpe",
                      .layers = "transformer.h.",
                      .final_norm = "transformer.ln_f"},
          .transposed_linears = true,
          .read = read,
          .write = write,
          .read_gguf = read_gguf,
          .layer = layer};
}

}  // namespace forge::gpt2
