// Granite (IBM, 2024): Llama's layer with a factor on the embeddings, on the scores, on what each
// half adds to the stream, and on the logits.
#include "core/model/families/family.h"
#include "kernels/rows/rows_op.h"

namespace forge {
namespace {

constexpr double kLeast = 1e-6, kMost = 1e6;

void read(Settings& settings, ModelSpec& spec) {
  spec.embedding_scale = settings.number("embedding_multiplier", kLeast, kMost, 1);
  spec.attention_scale = settings.number("attention_multiplier", kLeast, kMost, 1);
  spec.residual_scale = settings.number("residual_multiplier", kLeast, kMost, 1);
  spec.logit_scale = 1 / settings.number("logits_scaling", kLeast, kMost, 1);
}

void read_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  spec.embedding_scale = settings.number(".embedding_scale", kLeast, kMost, 1);
  spec.attention_scale = settings.number(".attention.scale", 0, kMost, 0);
  spec.residual_scale = settings.number(".residual_scale", kLeast, kMost, 1);
  spec.logit_scale = 1 / settings.number(".logit_scale", kLeast, kMost, 1);
}

void write(const ModelSpec& spec, Json& config) {
  config["embedding_multiplier"] = spec.embedding_scale;
  config["attention_multiplier"] = attention_of(spec, 0).scale;
  config["residual_multiplier"] = spec.residual_scale;
  config["logits_scaling"] = 1 / spec.logit_scale;
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  ValueId x = self_attention(g, m, layer, norm(g, m, h, "input_layernorm"));
  h = add(g, h, scale(g, x, m.residual_scale));
  x = gated_mlp(g, m, norm(g, m, h, "post_attention_layernorm"));
  return add(g, h, scale(g, x, m.residual_scale));
}

}  // namespace

Family granite_family() {
  return {.name = "granite",
          .architecture = "GraniteForCausalLM",
          .gguf_architecture = "granite",
          .max_position_embeddings = 2048,
          .flags = {kAttentionBias, kMlpBias},
          .read = read,
          .write = write,
          .read_gguf = read_gguf,
          .layer = layer};
}

}  // namespace forge
