// Phi-1, 1.5 and 2 (Li et al., 2023): attention and MLP read one norm and are added to the stream
// together; layer norms, rotary positions on a part of each head, gelu, and biases everywhere, in
// the head too.
#include "core/model/families/family.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rows/rows_op.h"

namespace forge::phi {
namespace {

void set_constants(ModelSpec& spec) {
  spec.layer_norm = spec.norm_bias = spec.qkv_bias = spec.o_bias = spec.mlp_bias = spec.head_bias =
      true;
}

void read(Settings& settings, ModelSpec& spec) {
  set_constants(spec);
  settings.must_be("qk_layernorm", false, "no norms of q and k");
}

void read_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  set_constants(spec);
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  const ValueId x = norm(g, m, h, "input_layernorm");
  auto [q, k, v] = project_qkv(g, m, x);
  const ValueId attended =
      linear(g, attend(g, m, layer, q, k, v), {"self_attn.dense", m.hidden_size, m.o_bias});
  const ValueId changed = plain_mlp(g, m, x, "mlp.fc1", "mlp.fc2", ActivationKind::gelu_tanh);
  return add(g, add(g, h, attended), changed);
}

}  // namespace

Family phi_family() {
  return {.name = "phi",
          .architecture = "PhiForCausalLM",
          .gguf_architecture = "phi2",
          .max_position_embeddings = 2048,
          .activation = "gelu_new",
          .same_activations = {"gelu_pytorch_tanh", "gelu_fast"},
          .norm_eps = 1e-5,
          .partial_rotary = true,
          .partial_rotary_factor = 0.5,
          .spelling = {{"rms_norm_eps", "layer_norm_eps"}},
          .modules = {.final_norm = "model.final_layernorm"},
          .read = read,
          .read_gguf = read_gguf,
          .layer = layer};
}

}  // namespace forge::phi
