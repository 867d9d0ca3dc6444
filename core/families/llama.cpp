// Llama (Touvron et al., 2023): norms before attention and before a gated MLP, rotary positions, grouped queries. Mistral and
// Qwen2 are the same layer with other biases; Qwen3 norms the heads of q and k.
#include <cmath>

#include "core/families/step.h"

namespace forge {

ValueId llama_layer(Recorder& g, const ModelSpec& m, ValueId h) {
  const Recorder::Heads heads{m.num_heads, m.num_kv_heads, m.head_dim};
  const int64_t q_size = m.num_heads * m.head_dim, kv_size = m.num_kv_heads * m.head_dim;
  ValueId x = g.norm(h, "input_layernorm", m.rms_norm_eps);
  auto [q, k, v] = g.linear(x, {{"self_attn.q_proj", q_size, m.qkv_bias},
                                {"self_attn.k_proj", kv_size, m.qkv_bias},
                                {"self_attn.v_proj", kv_size, m.qkv_bias}});
  if (m.qk_norm) {
    q = g.head_norm(q, "self_attn.q_norm", m.head_dim, m.rms_norm_eps);
    k = g.head_norm(k, "self_attn.k_norm", m.head_dim, m.rms_norm_eps);
  }
  auto [q_turned, k_turned] = g.rope(q, k, heads);
  ValueId mixed =
      g.attention(q_turned, k_turned, v, heads, {.scale = 1 / std::sqrt(static_cast<double>(m.head_dim))});
  h = g.add(h, g.linear(mixed, {"self_attn.o_proj", m.hidden_size, m.o_bias}));

  x = g.norm(h, "post_attention_layernorm", m.rms_norm_eps);
  auto [gate, up] = g.linear(x, {{"mlp.gate_proj", m.intermediate_size, m.mlp_bias},
                                 {"mlp.up_proj", m.intermediate_size, m.mlp_bias}});
  return g.add(h, g.linear(g.glu(gate, up, GateKind::silu), {"mlp.down_proj", m.hidden_size, m.mlp_bias}));
}

}  // namespace forge
