// Phi-3 (Abdin et al., 2024) and Phi-4-mini: Llama's layer with q, k and v in one matrix, and gate
// and up in another. Long contexts have a factor for each frequency. Phi-4-mini has rotary
// positions on a part of each head.
#include "core/model/families/family.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rows/rows_op.h"

namespace forge {
namespace {

void read(Settings& settings, ModelSpec& spec) { read_windows(settings, spec, 0); }

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  const int64_t q_size = m.num_heads * m.head_dim, kv_size = m.num_kv_heads * m.head_dim;
  ValueId x = norm(g, m, h, "input_layernorm");
  auto [q, k, v] =
      g.split(linear(g, x, {"self_attn.qkv_proj", q_size + 2 * kv_size}), {q_size, kv_size, kv_size});
  h = add(g, h, linear(g, attend(g, m, layer, q, k, v), {"self_attn.o_proj", m.hidden_size}));
  return add(g, h, merged_gated_mlp(g, m, norm(g, m, h, "post_attention_layernorm")));
}

}  // namespace

Family phi3_family() {
  return {.name = "phi3",
          .architecture = "Phi3ForCausalLM",
          .gguf_architecture = "phi3",
          .max_position_embeddings = 4096,
          .norm_eps = 1e-5,
          .partial_rotary = true,
          .read = read,
          .write = write_window,
          .layer = layer};
}

}  // namespace forge
