// Llama (Touvron et al., 2023): norms before attention and before a gated MLP, rotary positions, grouped queries. Mistral and
// Qwen2 are the same layer with other biases and windows; Qwen3 norms the heads of q and k.
#include "core/families/family.h"

namespace forge {
namespace {

void read(Settings& settings, ModelSpec& spec) {
  spec.qkv_bias = spec.o_bias = settings.flag("attention_bias", false);
  spec.mlp_bias = settings.flag("mlp_bias", false);
  // More than 1 splits the linears into slices that are summed in another order.
  const Json* slices = settings.find("pretraining_tp");
  if (slices && !(slices->is_number_integer() && slices->get<int64_t>() <= 1))
    settings.unsupported("pretraining_tp",
                         "is " + dump_json(*slices) + ", forge computes only 1 (unsliced linears)");
  read_layer_types(settings, spec, [](int64_t) { return true; });
  settings.must_be("rope_interleaved", false, "rotary pairs are the two halves of a head");
}

void write(const ModelSpec& spec, Json& config) {
  config["attention_bias"] = spec.qkv_bias;
  config["mlp_bias"] = spec.mlp_bias;
}

}  // namespace

Family llama_family() {
  return {.name = "llama",
          .architecture = "LlamaForCausalLM",
          .gguf_architecture = "llama",
          .max_position_embeddings = 2048,
          .num_kv_heads = 0,
          .read = read,
          .write = write,
          .read_gguf = refuse_window,
          .layer = llama_layer};
}

ValueId llama_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  const int64_t q_size = m.num_heads * m.head_dim, kv_size = m.num_kv_heads * m.head_dim;
  ValueId x = g.norm(h, "input_layernorm", m.rms_norm_eps);
  auto [q, k, v] = g.linear(x, {{"self_attn.q_proj", q_size, m.qkv_bias},
                                {"self_attn.k_proj", kv_size, m.qkv_bias},
                                {"self_attn.v_proj", kv_size, m.qkv_bias}});
  if (m.qk_norm) {
    q = g.head_norm(q, "self_attn.q_norm", m.head_dim, m.rms_norm_eps);
    k = g.head_norm(k, "self_attn.k_norm", m.head_dim, m.rms_norm_eps);
  }
  auto [q_turned, k_turned] = g.rope(q, k, heads_of(m));
  ValueId mixed = g.attention(q_turned, k_turned, v, heads_of(m), attention_of(m, layer));
  h = g.add(h, g.linear(mixed, {"self_attn.o_proj", m.hidden_size, m.o_bias}));

  x = g.norm(h, "post_attention_layernorm", m.rms_norm_eps);
  auto [gate, up] = g.linear(x, {{"mlp.gate_proj", m.intermediate_size, m.mlp_bias},
                                 {"mlp.up_proj", m.intermediate_size, m.mlp_bias}});
  return g.add(h, g.linear(g.glu(gate, up, GateKind::silu), {"mlp.down_proj", m.hidden_size, m.mlp_bias}));
}

}  // namespace forge
