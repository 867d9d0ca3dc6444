// Mistral (Jiang et al., 2023): Llama's layer, with a sliding window in every layer. Mixtral
// (2024): that layer with experts in place of the MLP. Ministral 3 and Devstral 2 (2025): queries
// grow with the logarithm of their position, after every so many tokens.
#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"

namespace forge::mistral {
namespace {

constexpr ExpertNames kNames{"block_sparse_moe.gate", "block_sparse_moe.experts.", ".w1", ".w3", ".w2"};

void read(Settings& settings, ModelSpec& spec) { read_windows(settings, spec, 4096); }

void read_mixtral(Settings& settings, ModelSpec& spec) {
  spec.num_experts = settings.integer("num_local_experts", 1, kMostExperts, 8);
  read_router(settings, spec, 2);
  spec.expert_size = spec.intermediate_size;
  spec.normalise_experts = true;
  settings.must_be("router_jitter_noise", 0.0, "no noise on the router's input");
  read_windows(settings, spec, 0);
}

// Default of transformers if config.json says nothing of positions.
void set_silent_rope(ModelSpec& spec) {
  spec.rope = {.type = RopeType::yarn, .theta = 1e6, .factor = 16, .original_max_position_embeddings = 16384, .mscale = 1, .mscale_all_dim = 1};
  spec.query_growth = 0.1, spec.query_growth_period = spec.rope.original_max_position_embeddings;
}

void read_ministral3(Settings& settings, ModelSpec& spec) {
  if (!settings.has("head_dim")) spec.head_dim = 128;
  if (!settings.has("pad_token_id")) spec.pad_token_id = 11;
  if (!settings.find("rope_scaling") && !settings.find("rope_parameters")) {
    settings.must_be("rope_theta", 1e6, "the base of the class where there are no rope_parameters");
    set_silent_rope(spec);
  }
  read_windows(settings, spec, 0);
}

void write_ministral3(const ModelSpec& spec, Json& config) {
  Json& rope = config["rope_parameters"];
  rope["llama_4_scaling_beta"] = spec.query_growth;
  if (spec.query_growth > 0) rope["original_max_position_embeddings"] = spec.query_growth_period;
  config.erase("rope_theta");
  write_window(spec, config);
}

// In llama.cpp YaRN changes these models' angles, and not the size of their scores (mistral3.cpp).
void read_ministral3_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  spec.query_growth = settings.number(".attention.temperature_scale", 0, 1e6, 0);
  if (spec.query_growth > 0)
    spec.query_growth_period =
        settings.integer(".rope.scaling.original_context_length", 0, int64_t{1} << 40, 0);
  if (spec.query_growth > 0 && spec.query_growth_period == 0)
    settings.broken(".rope.scaling.original_context_length", "is missing, and queries grow after so many tokens");
  settings.number(".rope.scaling.yarn_log_multiplier", 0, 1e6, 0);
  if (spec.rope.type == RopeType::yarn) spec.rope.mscale = spec.rope.mscale_all_dim = 1;
}

void write_mixtral(const ModelSpec& spec, Json& config) {
  config["num_local_experts"] = spec.num_experts;
  write_router(spec, config);
  write_window(spec, config);
}

ValueId experts(Recorder& g, const ModelSpec& m, ValueId x) { return sparse_mlp(g, m, x, kNames, route_rule(m)); }

}  // namespace

Family mistral_family() {
  return {.name = "mistral",
          .architecture = "MistralForCausalLM",
          .max_position_embeddings = 131072,
          .num_kv_heads = 8,
          .read = read,
          .write = write_window};
}

Family ministral3_family() {
  return {.name = "ministral3",
          .architecture = "Ministral3ForCausalLM",
          .gguf_architecture = "mistral3",
          .max_position_embeddings = 262144,
          .num_kv_heads = 8,
          .norm_eps = 1e-5,
          .query_growth = true,
          .read = read_ministral3,
          .write = write_ministral3,
          .read_gguf = read_ministral3_gguf};
}

Family mixtral_family() {
  return {.name = "mixtral",
          .architecture = "MixtralForCausalLM",
          .gguf_architecture = "llama",
          .mixture = true,
          .max_position_embeddings = 131072,
          .num_kv_heads = 8,
          .norm_eps = 1e-5,
          .rope_theta = 1000000,
          .read = read_mixtral,
          .write = write_mixtral,
          .read_gguf = refuse_window,
          .mlp = experts};
}

}  // namespace forge::mistral
