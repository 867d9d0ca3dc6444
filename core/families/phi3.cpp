// Phi-3 (Abdin et al., 2024): Llama's layer with q, k and v in one matrix, and gate and up in another.
#include <cmath>

#include "core/families/step.h"

namespace forge {

ValueId phi3_layer(Recorder& g, const ModelSpec& m, ValueId h) {
  const Recorder::Heads heads{m.num_heads, m.num_kv_heads, m.head_dim};
  const int64_t q_size = m.num_heads * m.head_dim, kv_size = m.num_kv_heads * m.head_dim;
  ValueId x = g.norm(h, "input_layernorm", m.rms_norm_eps);
  auto [q, k, v] =
      g.split(g.linear(x, {"self_attn.qkv_proj", q_size + 2 * kv_size}), {q_size, kv_size, kv_size});
  auto [q_turned, k_turned] = g.rope(q, k, heads);
  ValueId mixed =
      g.attention(q_turned, k_turned, v, heads, {.scale = 1 / std::sqrt(static_cast<double>(m.head_dim))});
  h = g.add(h, g.linear(mixed, {"self_attn.o_proj", m.hidden_size}));

  x = g.norm(h, "post_attention_layernorm", m.rms_norm_eps);
  auto [gate, up] = g.split(g.linear(x, {"mlp.gate_up_proj", 2 * m.intermediate_size}),
                            {m.intermediate_size, m.intermediate_size});
  return g.add(h, g.linear(g.glu(gate, up, GateKind::silu), {"mlp.down_proj", m.hidden_size}));
}

}  // namespace forge
