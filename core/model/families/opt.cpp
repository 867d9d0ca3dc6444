// OPT (Zhang et al., 2022): learned positions from the third row of their table on, layer norms
// with biases, and an MLP without a gate, max(x, 0).
#include "core/model/families/family.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rows/rows_op.h"

namespace forge::opt {
namespace {

constexpr int64_t kFirstPosition = 2;

void read(Settings& settings, ModelSpec& spec) {
  spec.layer_norm = spec.norm_bias = spec.learned_positions = true;
  spec.position_offset = kFirstPosition;
  spec.rope.partial_rotary_factor = 0;
  spec.num_kv_heads = spec.num_heads, spec.head_dim = spec.hidden_size / spec.num_heads;
  if (spec.num_heads * spec.head_dim != spec.hidden_size)
    settings.broken("num_attention_heads", "does not divide hidden_size");
  settings.must_be("do_layer_norm_before", true, "norms before attention and MLP");
  settings.must_be("_remove_final_layer_norm", false, "a norm after the last layer");
  settings.must_be("word_embed_proj_dim", spec.hidden_size, "embeddings as wide as the layers");
  settings.must_be("layer_norm_elementwise_affine", true, "norms with weights");
}

void write(const ModelSpec& spec, Json& config) {
  for (const char* key :
       {"head_dim", "num_key_value_heads", "rope_parameters", "rope_theta", "rms_norm_eps"})
    config.erase(key);
  config["word_embed_proj_dim"] = spec.hidden_size;
  for (const char* key : {"dropout", "attention_dropout", "layerdrop"}) config[key] = 0.0;
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  auto [q, k, v] = project_qkv(g, m, norm(g, m, h, "self_attn_layer_norm"));
  h = add(g, h,
          linear(g, attend(g, m, layer, q, k, v), {"self_attn.out_proj", m.hidden_size, m.o_bias}));
  return add(
      g, h, plain_mlp(g, m, norm(g, m, h, "final_layer_norm"), "fc1", "fc2", ActivationKind::relu));
}

}  // namespace

Family opt_family() {
  return {.name = "opt",
          .architecture = "OPTForCausalLM",
          .max_position_embeddings = 2048,
          .activation = "relu",
          .norm_eps = 1e-5,
          .tied = true,
          .spelling = {{"intermediate_size", "ffn_dim"},
                       {"hidden_act", "activation_function"},
                       {"initializer_range", "init_std"}},
          .modules = {.embedding = "model.decoder.embed_tokens",
                      .positions = "model.decoder.embed_positions",
                      .layers = "model.decoder.layers.",
                      .final_norm = "model.decoder.final_layer_norm"},
          .flags = {{"enable_bias", true, kAllBiases}},
          .read = read,
          .write = write,
          .layer = layer};
}

}  // namespace forge::opt
