// Arcee's foundation models (AFM, 2025): Llama's layer with an MLP without a gate, max(x, 0)².
#include "core/model/families/family.h"

namespace forge::arcee {
namespace {

ValueId mlp(Recorder& g, const ModelSpec& m, ValueId x) {
  return plain_mlp(g, m, x, "mlp.up_proj", "mlp.down_proj", ActivationKind::relu2);
}

}  // namespace

Family arcee_family() {
  return {.name = "arcee",
          .architecture = "ArceeForCausalLM",
          .gguf_architecture = "arcee",
          .max_position_embeddings = 4096,
          .activation = "relu2",
          .norm_eps = 1e-5,
          .flags = {kAttentionBias, kMlpBias},
          .read_gguf = refuse_window,
          .mlp = mlp};
}

}  // namespace forge::arcee
