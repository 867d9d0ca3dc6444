// BART (Lewis et al., 2020): layer norms after each half and after the embeddings, learned
// positions whose table begins with two unused rows, biases everywhere. final_logits_bias, a buffer
// of zeros in published files, is refused if it is not zero (core/plan/files/model_file.cpp).
#include <cmath>

#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "core/model/families/parameters.h"
#include "kernels/embedding/embedding_op.h"
#include "kernels/layer_norm/layer_norm_op.h"
#include "kernels/rows/rows_op.h"

namespace forge::bart {
namespace {

void same_in_both(Settings& settings, const char* encoder, const char* decoder, int64_t size) {
  if (settings.integer(encoder, 1, kMostIntermediate, size) != size)
    settings.unsupported(encoder, std::string("differs from ") + decoder + ", forge needs both stacks to have one shape");
}

void read(Settings& settings, ModelSpec& spec) {
  spec.num_layers = settings.integer("decoder_layers", 1, kMostLayers, 12);
  spec.encoder_layers = settings.integer("encoder_layers", 1, kMostLayers, 12);
  same_in_both(settings, "encoder_attention_heads", "decoder_attention_heads", spec.num_heads);
  same_in_both(settings, "encoder_ffn_dim", "decoder_ffn_dim", spec.intermediate_size);
  spec.num_kv_heads = spec.num_heads, spec.head_dim = spec.hidden_size / spec.num_heads;
  if (spec.num_heads * spec.head_dim != spec.hidden_size) settings.broken("decoder_attention_heads", "does not divide d_model");
  spec.rope.partial_rotary_factor = 0;
  spec.layer_norm = spec.norm_bias = spec.qkv_bias = spec.o_bias = spec.mlp_bias = true;
  spec.learned_positions = true, spec.position_offset = 2;
  if (settings.flag("scale_embedding", false)) spec.embedding_scale = std::sqrt(static_cast<double>(spec.hidden_size));
  if (!settings.has("bos_token_id")) spec.bos_token_id = 0;
  if (!settings.has("pad_token_id")) spec.pad_token_id = 1;
  if (!settings.has("eos_token_id")) spec.eos_token_ids = {2};
  spec.decoder_start_id = settings.integer("decoder_start_token_id", 0, kMostVocab, 2);
  settings.must_be("is_encoder_decoder", true, "an encoder-decoder");
}

// Records the attention of `module` for x, with keys and values from `seen`.
ValueId attention(Recorder& g, const ModelSpec& m, const std::string& module, ValueId x, ValueId seen, Sight sight) {
  return attention_over(g, m, module, {".q_proj", ".k_proj", ".v_proj", ".out_proj"}, x, seen,
                        sight);
}

ValueId mlp(Recorder& g, const ModelSpec& m, ValueId x) {
  return plain_mlp(g, m, x, "fc1", "fc2", ActivationKind::gelu);
}

// Records the norm after an addition. Its result is the residual stream.
ValueId stream_norm(Recorder& g, const ModelSpec& m, ValueId x, const char* module) {
  return stream_norm(g, x, module, m.rms_norm_eps, m.norm_bias);
}

ValueId embedded(Recorder& g, const ModelSpec& m, const char* positions, Rows rows) {
  const ValueId h = embed(g, "model.shared", m.vocab_size, m.hidden_size, m.embedding_scale, frozen_embedding_row(m), rows);
  const int64_t all = m.max_position_embeddings + m.position_offset;
  return add(g, h, embed_positions(g, positions, all, m.hidden_size, m.position_offset, rows));
}

ValueId encoder(Recorder& g, const ModelSpec& m) {
  ValueId h = stream_norm(g, m, embedded(g, m, "model.encoder.embed_positions", Rows::source), "model.encoder.layernorm_embedding");
  for (int64_t layer = 0; layer < m.encoder_layers; ++layer) {
    g.enter_layer(layer, "model.encoder.layers." + std::to_string(layer) + ".");
    h = stream_norm(g, m, add(g, h, attention(g, m, "self_attn", h, h, Sight::whole)), "self_attn_layer_norm");
    h = add(g, h, mlp(g, m, h));
    // Only products read the encoder's output, so it is not recorded as a stream.
    h = layer + 1 < m.encoder_layers ? stream_norm(g, m, h, "final_layer_norm") : norm(g, m, h, "final_layer_norm");
  }
  g.leave_layer();
  return h;
}

ValueId stacks(Recorder& g, const ModelSpec& m) {
  const ValueId source = encoder(g, m);
  ValueId h = stream_norm(g, m, embedded(g, m, "model.decoder.embed_positions", Rows::tokens), "model.decoder.layernorm_embedding");
  for (int64_t layer = 0; layer < m.num_layers; ++layer) {
    g.enter_layer(m.encoder_layers + layer, "model.decoder.layers." + std::to_string(layer) + ".");
    h = stream_norm(g, m, add(g, h, attention(g, m, "self_attn", h, h, Sight::causal)), "self_attn_layer_norm");
    h = stream_norm(g, m, add(g, h, attention(g, m, "encoder_attn", h, source, Sight::source)), "encoder_attn_layer_norm");
    h = add(g, h, mlp(g, m, h));
    if (layer + 1 < m.num_layers) h = stream_norm(g, m, h, "final_layer_norm");
  }
  // The last norm reads the supervised rows alone.
  const std::string last = "model.decoder.layers." + std::to_string(m.num_layers - 1) + ".final_layer_norm";
  g.leave_layer();
  return norm(g, m, gather(g, h), last.c_str());
}

}  // namespace

Family bart_family() {
  return {.name = "bart",
          .architecture = "BartForConditionalGeneration",
          .max_position_embeddings = 1024,
          .activation = "gelu",
          .norm_eps = 1e-5,
          .tied = true,
          .spelling = {{"hidden_size", "d_model"},
                       {"num_hidden_layers", "decoder_layers"},
                       {"num_attention_heads", "decoder_attention_heads"},
                       {"intermediate_size", "decoder_ffn_dim"},
                       {"hidden_act", "activation_function"},
                       {"initializer_range", "init_std"}},
          .modules = {.embedding = "model.shared",
                      .positions = "model.decoder.embed_positions",
                      .layers = "model.decoder.layers.",
                      .final_norm = "final_layer_norm"},
          .read = read,
          .stacks = stacks};
}

}  // namespace forge::bart
