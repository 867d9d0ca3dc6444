// Mistral (Jiang et al., 2023): Llama's layer, with a sliding window in every layer. Mixtral
// (2024): that layer with experts in place of the MLP.
#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"

namespace forge {
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

}  // namespace forge
