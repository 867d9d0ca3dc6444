// Gemma (Gemma Team, 2024): Llama's layer with gelu in the gate, embeddings of the size of the
// stream, heads as wide as they like, and norms that multiply by 1 + weight.
#include "core/model/families/gemma_parts.h"
#include "kernels/rows/rows_op.h"

namespace forge {
namespace {

void read(Settings& settings, ModelSpec& spec) { read_gemma(settings, spec); }
void read_gguf(GgufSettings&, ModelSpec& spec) { set_gemma_constants(spec); }

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  h = add(g, h, self_attention(g, m, layer, norm(g, m, h, "input_layernorm")));
  return add(g, h, gated_mlp(g, m, norm(g, m, h, "post_attention_layernorm"), GateKind::gelu_tanh));
}

}  // namespace

Family gemma_family() {
  return {.name = "gemma",
          .architecture = "GemmaForCausalLM",
          .gguf_architecture = "gemma",
          .max_position_embeddings = 8192,
          .num_kv_heads = 16,
          .activation = kGemmaActivation,
          .same_activations = {"gelu"},  // the first files say gelu and mean gelu_pytorch_tanh
          .tied = true,
          .read = read,
          .write = write_gemma,
          .read_gguf = read_gguf,
          .layer = layer};
}

}  // namespace forge
