// Nemotron and Minitron (NVIDIA, 2024): Llama's attention with rotary positions on a part of each
// head, between layer norms whose weights have 1 added, and an MLP without a gate, max(x, 0)².
#include "core/model/families/family.h"

namespace forge::nemotron {
namespace {

void set_norms(ModelSpec& spec) {
  spec.layer_norm = spec.norm_bias = true;
  spec.norm_offset = 1;
}

void read(Settings&, ModelSpec& spec) { set_norms(spec); }

void read_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  set_norms(spec);
  spec.mlp_bias = spec.o_bias;
}

ValueId mlp(Recorder& g, const ModelSpec& m, ValueId x) {
  return plain_mlp(g, m, x, "mlp.up_proj", "mlp.down_proj", ActivationKind::relu2);
}

}  // namespace

Family nemotron_family() {
  return {.name = "nemotron",
          .architecture = "NemotronForCausalLM",
          .gguf_architecture = "nemotron",
          .max_position_embeddings = 4096,
          .activation = "relu2",
          .norm_eps = 1e-5,
          .partial_rotary = true,
          .partial_rotary_factor = 0.5,
          .spelling = {{"rms_norm_eps", "norm_eps"}},
          .flags = {kAttentionBias, kMlpBias},
          .read = read,
          .read_gguf = read_gguf,
          .mlp = mlp};
}

}  // namespace forge::nemotron
