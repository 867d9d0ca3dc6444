// Phi-3 (Abdin et al., 2024): Llama's layer with q, k and v in one matrix, and gate and up in another.
#include "core/families/family.h"

namespace forge {
namespace {

void read(Settings& settings, ModelSpec& spec) {
  for (const char* key : {"embd_pdrop", "resid_pdrop"})
    settings.must_be(key, 0.0, "no dropout inside the base model");
  settings.find(
      "original_max_position_embeddings");  // what long scaling reads, which is refused where it is asked for
  spec.sliding_window = window_setting(settings, 0);
  read_layer_types(settings, spec, [](int64_t) { return false; });
}

void write(const ModelSpec& spec, Json& config) { config["sliding_window"] = window_json(spec); }

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  const int64_t q_size = m.num_heads * m.head_dim, kv_size = m.num_kv_heads * m.head_dim;
  ValueId x = g.norm(h, "input_layernorm", m.rms_norm_eps);
  auto [q, k, v] =
      g.split(g.linear(x, {"self_attn.qkv_proj", q_size + 2 * kv_size}), {q_size, kv_size, kv_size});
  auto [q_turned, k_turned] = g.rope(q, k, heads_of(m));
  ValueId mixed = g.attention(q_turned, k_turned, v, heads_of(m), attention_of(m, layer));
  h = g.add(h, g.linear(mixed, {"self_attn.o_proj", m.hidden_size}));

  x = g.norm(h, "post_attention_layernorm", m.rms_norm_eps);
  auto [gate, up] = g.split(g.linear(x, {"mlp.gate_up_proj", 2 * m.intermediate_size}),
                            {m.intermediate_size, m.intermediate_size});
  return g.add(h, g.linear(g.glu(gate, up, GateKind::silu), {"mlp.down_proj", m.hidden_size}));
}

}  // namespace

Family phi3_family() {
  return {.name = "phi3",
          .architecture = "Phi3ForCausalLM",
          .gguf_architecture = "phi3",
          .max_position_embeddings = 4096,
          .num_kv_heads = 0,
          .read = read,
          .write = write,
          .layer = layer};
}

}  // namespace forge
