// StarCoder2 (Lozhkov et al., 2024): Llama's attention between layer norms with biases, and an MLP
// without a gate.
#include "core/model/families/family.h"
#include "kernels/activation/activation_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rows/rows_op.h"

namespace forge {
namespace {

void read(Settings& settings, ModelSpec& spec) {
  spec.layer_norm = spec.norm_bias = true;
  spec.qkv_bias = spec.o_bias = spec.mlp_bias = settings.flag("use_bias", true);
  spec.sliding_window = window_setting(settings, 0);
  read_layer_types(settings, spec, [](int64_t) { return false; });
}

void read_gguf(GgufSettings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  spec.layer_norm = spec.norm_bias = true;
  spec.mlp_bias = spec.o_bias;
}

void write(const ModelSpec& spec, Json& config) {
  config["use_bias"] = spec.qkv_bias;
  config["sliding_window"] = window_json(spec);
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  h = add(g, h, self_attention(g, m, layer, norm(g, m, h, "input_layernorm")));
  ValueId x = norm(g, m, h, "post_attention_layernorm");
  x = activation(g, linear(g, x, {"mlp.c_fc", m.intermediate_size, m.mlp_bias}), ActivationKind::gelu_tanh);
  return add(g, h, linear(g, x, {"mlp.c_proj", m.hidden_size, m.mlp_bias}));
}

}  // namespace

Family starcoder2_family() {
  return {.name = "starcoder2",
          .architecture = "Starcoder2ForCausalLM",
          .gguf_architecture = "starcoder2",
          .max_position_embeddings = 4096,
          .num_kv_heads = 2,
          .activation = "gelu_pytorch_tanh",
          .norm_eps = 1e-5,
          .tied = true,
          .spelling = {{"rms_norm_eps", "norm_epsilon"}},
          .read = read,
          .write = write,
          .read_gguf = read_gguf,
          .layer = layer};
}

}  // namespace forge
