// Cohere's Command R (2024): attention and MLP read one norm and are added to the stream together;
// norms subtract the mean and have no bias, rotary positions rotate neighbouring features, and the
// logits have a factor. Command R7B (Cohere2) has rotary positions only in layers with a window.
#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "kernels/rows/rows_op.h"

namespace forge {
namespace {

constexpr int64_t kWindow = 4096, kPeriod = 4;

void read(Settings& settings, ModelSpec& spec, const char* logit_scale) {
  spec.layer_norm = true;
  spec.rope.interleaved = true;
  spec.logit_scale = settings.number(logit_scale, 1e-9, 1e6, 0.0625);
}

void read_cohere(Settings& settings, ModelSpec& spec) {
  read(settings, spec, "logit_scale");
  settings.must_be("use_qk_norm", false, "no norms of q and k");
}

// Layers with full attention have no rotary positions.
void read_cohere2(Settings& settings, ModelSpec& spec) {
  read(settings, spec, "logit_scale");
  const int64_t period = settings.integer("sliding_window_pattern", 1, kMostLayers, kPeriod);
  read_periodic_windows(settings, spec, kWindow, period);
  spec.no_rope_layers = spec.full_layers;
}

void read_cohere_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  read(settings, spec, ".logit_scale");
}

void read_cohere2_gguf(Settings& settings, ModelSpec& spec) {
  read(settings, spec, ".logit_scale");
  set_periodic_windows(settings, spec, kWindow, kPeriod);
  spec.no_rope_layers = spec.full_layers;
}

void write(const ModelSpec& spec, Json& config) { config["logit_scale"] = spec.logit_scale; }

void write_cohere2(const ModelSpec& spec, Json& config) {
  write(spec, config);
  write_windows(spec, config);
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  ValueId x = norm(g, m, h, "input_layernorm");
  h = add(g, h, self_attention(g, m, layer, x));
  return add(g, h, gated_mlp(g, m, x));
}

}  // namespace

Family cohere_family() {
  return {.name = "cohere",
          .architecture = "CohereForCausalLM",
          .gguf_architecture = "command-r",
          .max_position_embeddings = 8192,
          .norm_eps = 1e-5,
          .rope_theta = 500000,
          .tied = true,
          .spelling = {{"rms_norm_eps", "layer_norm_eps"}},
          .flags = {kAttentionBias},
          .read = read_cohere,
          .write = write,
          .read_gguf = read_cohere_gguf,
          .layer = layer};
}

Family cohere2_family() {
  Family family = cohere_family();
  family.name = "cohere2";
  family.architecture = "Cohere2ForCausalLM";
  family.gguf_architecture = "cohere2";
  family.rope_theta = 10000;
  family.read = read_cohere2;
  family.write = write_cohere2;
  family.read_gguf = read_cohere2_gguf;
  return family;
}

}  // namespace forge
