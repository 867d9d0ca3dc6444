// GPT-J (Wang & Komatsuzaki, 2021): attention and MLP read one norm and are added to the stream
// together; layer norms, rotary positions on neighbouring features of a part of each head, gelu,
// and a head with a bias.
#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rows/rows_op.h"

namespace forge::gptj {
namespace {

void read(Settings& settings, ModelSpec& spec) {
  spec.layer_norm = spec.norm_bias = spec.mlp_bias = spec.head_bias = true;
  spec.num_kv_heads = spec.num_heads, spec.head_dim = spec.hidden_size / spec.num_heads;
  if (spec.num_heads * spec.head_dim != spec.hidden_size)
    settings.broken("num_attention_heads", "does not divide hidden_size");
  if (settings.has("rotary_dim") && !settings.find("rotary_dim"))
    settings.unsupported("rotary_dim",
                         "is null, expected the number of rotated features of a head");
  const int64_t turned = settings.integer("rotary_dim", 2, kMostHeadDim, 64);
  if (turned > spec.head_dim)
    settings.broken("rotary_dim", "is more than a head has, " + std::to_string(spec.head_dim));
  spec.rope.partial_rotary_factor =
      static_cast<double>(turned) / static_cast<double>(spec.head_dim);
  spec.rope.interleaved = true;
}

void write(const ModelSpec& spec, Json& config) {
  for (const char* key : {"head_dim", "num_key_value_heads", "rope_parameters", "rope_theta"})
    config.erase(key);
  config["rotary_dim"] = spec.rotary_dim();
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  const ValueId x = norm(g, m, h, "ln_1");
  const int64_t width = m.hidden_size;
  auto [q, k, v] =
      linear(g, x, {{"attn.q_proj", width}, {"attn.k_proj", width}, {"attn.v_proj", width}});
  const ValueId attended = linear(g, attend(g, m, layer, q, k, v), {"attn.out_proj", width});
  const ValueId changed = plain_mlp(g, m, x, "mlp.fc_in", "mlp.fc_out", ActivationKind::gelu_tanh);
  return add(g, add(g, h, attended), changed);
}

}  // namespace

Family gptj_family() {
  return {.name = "gptj",
          .architecture = "GPTJForCausalLM",
          .max_position_embeddings = 2048,
          .activation = "gelu_new",
          .same_activations = {"gelu_pytorch_tanh", "gelu_fast"},
          .norm_eps = 1e-5,
          .mlp_ratio = 4,
          .spelling = {{"hidden_size", "n_embd"},
                       {"num_hidden_layers", "n_layer"},
                       {"num_attention_heads", "n_head"},
                       {"max_position_embeddings", "n_positions"},
                       {"intermediate_size", "n_inner"},
                       {"hidden_act", "activation_function"},
                       {"rms_norm_eps", "layer_norm_epsilon"}},
          .modules = {.embedding = "transformer.wte",
                      .layers = "transformer.h.",
                      .final_norm = "transformer.ln_f"},
          .padding_row = false,
          .read = read,
          .write = write,
          .layer = layer};
}

}  // namespace forge::gptj
