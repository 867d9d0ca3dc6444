// StarCoder2 (Lozhkov et al., 2024): Llama's attention between layer norms with biases, and an MLP
// without a gate.
#include "core/model/families/family.h"

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

ValueId mlp(Recorder& g, const ModelSpec& m, ValueId x) {
  return plain_mlp(g, m, x, "mlp.c_fc", "mlp.c_proj", ActivationKind::gelu_tanh);
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
          .mlp = mlp};
}

}  // namespace forge
