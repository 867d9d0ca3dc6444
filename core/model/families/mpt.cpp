// MPT (MosaicML, 2023): no biases, q, k and v in one matrix, in some models within bounds, no
// positions but a bias of the scores, ALiBi, and an MLP without a gate.
#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "kernels/activation/activation_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rows/rows_op.h"

namespace forge::mpt {
namespace {

constexpr int64_t kAlibiMax = 8;  // the exponent of the last head's slope, in transformers

void set_constants(ModelSpec& spec) {
  spec.layer_norm = spec.alibi = true;
  spec.rope.partial_rotary_factor = 0;
}

// Reads attn_config, of which transformers takes the bounds and the scale of scores alone; what it
// leaves out of the authors' code is refused.
void read_attention(Settings& settings, ModelSpec& spec) {
  const Json* stated = settings.find("attn_config");
  if (!stated) return;
  if (!stated->is_object()) return settings.broken("attn_config", "is not an object");
  Settings own(*stated, settings.name() + ": attn_config");
  if (own.find("clip_qkv")) spec.qkv_clip = own.number("clip_qkv", 1e-6, 1e9);
  if (own.find("softmax_scale")) spec.attention_scale = own.number("softmax_scale", 1e-9, 1e9);
  own.must_be("attn_type", "multihead_attention", "a key and a value for each head");
  own.must_be("attn_pdrop", 0, "no dropout inside the model");
  own.must_be("alibi", true, "positions by ALiBi");
  own.must_be("alibi_bias_max", kAlibiMax, "as transformers does");
  own.must_be("qk_ln", false, "no norms of q and k");
  own.must_be("prefix_lm", false, "causal attention");
  own.find("attn_impl"), own.find("attn_uses_sequence_id");
  settings.absorb(own, "attn_config", [](const std::string& key) {
    return key == "model_type" || key == "dtype" || key == "transformers_version";
  });
}

void read(Settings& settings, ModelSpec& spec) {
  set_constants(spec);
  spec.num_kv_heads = spec.num_heads, spec.head_dim = spec.hidden_size / spec.num_heads;
  if (spec.num_heads * spec.head_dim != spec.hidden_size)
    settings.broken("n_heads", "does not divide d_model");
  settings.must_be("expansion_ratio", 4, "an MLP of four times the width");
  settings.must_be("logit_scale", Json(), "logits as they are");
  settings.must_be("no_bias", true, "no biases");
  read_attention(settings, spec);
}

void read_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  set_constants(spec);
  spec.qkv_clip = settings.number(".attention.clamp_kqv", 0, 1e9, 0);
  settings.must_be(".attention.max_alibi_bias", kAlibiMax, "as transformers does");
}

void write(const ModelSpec& spec, Json& config) {
  for (const char* key : {"head_dim", "num_key_value_heads", "rope_parameters", "rope_theta",
                          "intermediate_size", "hidden_act"})
    config.erase(key);
  config["expansion_ratio"] = 4;
  config["attn_config"] = {{"alibi", true},
                           {"alibi_bias_max", kAlibiMax},
                           {"clip_qkv", spec.qkv_clip > 0 ? Json(spec.qkv_clip) : Json(nullptr)}};
  if (spec.attention_scale > 0) config["attn_config"]["softmax_scale"] = spec.attention_scale;
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  const int64_t width = m.hidden_size;
  ValueId qkv = linear(g, norm(g, m, h, "norm_1"), {"attn.Wqkv", 3 * width});
  if (m.qkv_clip > 0) qkv = activation(g, qkv, ActivationKind::clamp, m.qkv_clip);
  auto [q, k, v] = g.split(qkv, {width, width, width});
  h = add(g, h, linear(g, attend(g, m, layer, q, k, v), {"attn.out_proj", width}));
  return add(g, h,
             plain_mlp(g, m, norm(g, m, h, "norm_2"), "ffn.up_proj", "ffn.down_proj",
                       ActivationKind::gelu));
}

}  // namespace

Family mpt_family() {
  return {.name = "mpt",
          .architecture = "MptForCausalLM",
          .gguf_architecture = "mpt",
          .max_position_embeddings = 2048,
          .activation = "gelu",
          .norm_eps = 1e-5,
          .tied = true,
          .mlp_ratio = 4,
          .spelling = {{"max_position_embeddings", "max_seq_len"},
                       {"rms_norm_eps", "layer_norm_epsilon"}},
          .modules = {.embedding = "transformer.wte",
                      .layers = "transformer.blocks.",
                      .final_norm = "transformer.norm_f"},
          .padding_row = false,
          .own_keys = {"expansion_ratio", "logit_scale", "no_bias"},
          .read = read,
          .write = write,
          .read_gguf = read_gguf,
          .layer = layer};
}

}  // namespace forge::mpt
