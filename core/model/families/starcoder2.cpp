// StarCoder2 (Lozhkov et al., 2024): Llama's attention between layer norms with biases, and an MLP
// without a gate.
#include "core/model/families/family.h"
#include "kernels/rows/rows_op.h"

namespace forge {
namespace {

void read(Settings& settings, ModelSpec& spec) {
  spec.layer_norm = spec.norm_bias = true;
  read_windows(settings, spec, 0);
}

void read_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  spec.layer_norm = spec.norm_bias = true;
  spec.mlp_bias = spec.o_bias;
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  h = add(g, h, self_attention(g, m, layer, norm(g, m, h, "input_layernorm")));
  return add(g, h,
             plain_mlp(g, m, norm(g, m, h, "post_attention_layernorm"), "mlp.c_fc", "mlp.c_proj",
                       ActivationKind::gelu_tanh));
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
          .flags = {{"use_bias", true, kAllBiases}},
          .read = read,
          .write = write_window,
          .read_gguf = read_gguf,
          .layer = layer};
}

}  // namespace forge
