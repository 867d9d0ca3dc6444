// T5 (Raffel et al., "Exploring the limits of transfer learning", 2020) and its version 1.1, which
// Flan-T5 is (Chung et al., 2022): RMS norms before each half, scores without a scale and with a
// bias by distance that a stack's layers share, and in 1.1 a gated MLP and a head of its own.
#include <cmath>

#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "kernels/attention/attention_op.h"
#include "kernels/embedding/embedding_op.h"
#include "kernels/rows/rows_op.h"

namespace forge::t5 {
namespace {

constexpr const char* kGated = "gated-gelu";

void read(Settings& settings, ModelSpec& spec) {
  spec.encoder_layers = spec.num_layers;
  spec.num_layers = settings.integer("num_decoder_layers", 1, kMostLayers, spec.encoder_layers);
  spec.num_kv_heads = spec.num_heads;
  spec.rope.partial_rotary_factor = 0;
  spec.max_position_embeddings = kMostPositions;  // distances are not bounded
  spec.attention_scale = 1;
  spec.position_buckets = settings.integer("relative_attention_num_buckets", 4, kMostPositions, 32);
  spec.position_distance = settings.integer("relative_attention_max_distance", 1, kMostPositions, 128);
  if (spec.position_distance <= spec.position_buckets / 2)
    settings.broken("relative_attention_max_distance", "is at most half of relative_attention_num_buckets, expected more");
  const std::string mlp = settings.text("feed_forward_proj", "relu");
  if (mlp != "relu" && mlp != kGated)
    settings.unsupported("feed_forward_proj", "is \"" + mlp + "\", forge computes relu and " + kGated);
  spec.gated_mlp = mlp == kGated;
  // transformers 5 has this key because it writes tie_word_embeddings: true in any case.
  if (settings.flag("scale_decoder_outputs", spec.tie_word_embeddings))
    spec.logit_scale = 1 / std::sqrt(static_cast<double>(spec.hidden_size));
  if (!settings.has("pad_token_id")) spec.pad_token_id = 0;
  if (!settings.has("eos_token_id")) spec.eos_token_ids = {1};
  spec.decoder_start_id = settings.integer("decoder_start_token_id", 0, kMostVocab, spec.pad_token_id);
  settings.must_be("is_encoder_decoder", true, "an encoder-decoder");
  // transformers derives the first two from feed_forward_proj and sets is_decoder for each stack.
  for (const char* key : {"dense_act_fn", "is_gated_act", "is_decoder"}) settings.find(key);
}

// Records the attention of `module` for x, with keys and values from `seen`.
ValueId attention(Recorder& g, const ModelSpec& m, const std::string& module, ValueId x, ValueId seen, Sight sight,
                  const PositionBias& bias) {
  return attention_over(g, m, module, {".q", ".k", ".v", ".o"}, x, seen, sight, bias);
}

ValueId mlp(Recorder& g, const ModelSpec& m, const std::string& module, ValueId x) {
  if (!m.gated_mlp) return plain_mlp(g, m, x, module + ".wi", module + ".wo", ActivationKind::relu);
  return gated_mlp(
      g, m, x, {module, m.intermediate_size, false, GateKind::gelu_tanh, ".wi_0", ".wi_1", ".wo"});
}

PositionBias bias_of(Recorder& g, const ModelSpec& m, const std::string& stack) {
  return position_bias(g, stack + ".block.0.layer.0.SelfAttention.relative_attention_bias", m.position_buckets, m.num_heads,
                         m.position_distance);
}

ValueId encoder(Recorder& g, const ModelSpec& m) {
  ValueId h = embed(g, "shared", m.vocab_size, m.hidden_size, 1, -1, Rows::source);
  const PositionBias bias = bias_of(g, m, "encoder");
  for (int64_t layer = 0; layer < m.encoder_layers; ++layer) {
    g.enter_layer(layer, "encoder.block." + std::to_string(layer) + ".");
    ValueId x = norm(g, m, h, "layer.0.layer_norm");
    h = add(g, h, attention(g, m, "layer.0.SelfAttention", x, x, Sight::whole, bias));
    h = add(g, h, mlp(g, m, "layer.1.DenseReluDense", norm(g, m, h, "layer.1.layer_norm")));
  }
  g.leave_layer();
  return norm(g, m, h, "encoder.final_layer_norm");
}

ValueId stacks(Recorder& g, const ModelSpec& m) {
  const ValueId source = encoder(g, m);
  ValueId h = embed(g, "shared", m.vocab_size, m.hidden_size);
  const PositionBias bias = bias_of(g, m, "decoder");
  for (int64_t layer = 0; layer < m.num_layers; ++layer) {
    g.enter_layer(m.encoder_layers + layer, "decoder.block." + std::to_string(layer) + ".");
    ValueId x = norm(g, m, h, "layer.0.layer_norm");
    h = add(g, h, attention(g, m, "layer.0.SelfAttention", x, x, Sight::causal, bias));
    x = norm(g, m, h, "layer.1.layer_norm");
    h = add(g, h, attention(g, m, "layer.1.EncDecAttention", x, source, Sight::source, {}));
    h = add(g, h, mlp(g, m, "layer.2.DenseReluDense", norm(g, m, h, "layer.2.layer_norm")));
  }
  g.leave_layer();
  return norm(g, m, gather(g, h), "decoder.final_layer_norm");
}

}  // namespace

Family t5_family() {
  return {.name = "t5",
          .architecture = "T5ForConditionalGeneration",
          .max_position_embeddings = 512,
          .activation = "relu",
          .tied = true,
          .spelling = {{"hidden_size", "d_model"},
                       {"intermediate_size", "d_ff"},
                       {"num_hidden_layers", "num_layers"},
                       {"num_attention_heads", "num_heads"},
                       {"head_dim", "d_kv"},
                       {"rms_norm_eps", "layer_norm_epsilon"}},
          .modules = {.embedding = "shared", .layers = "decoder.block.", .final_norm = "decoder.final_layer_norm"},
          .padding_row = false,
          .read = read,
          .stacks = stacks};
}

}  // namespace forge::t5
