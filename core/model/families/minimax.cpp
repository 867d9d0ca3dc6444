// MiniMax-M2 (MiniMax, 2025): Llama's layer with norms over all heads of q and of k at once, a part
// of each head turned, and experts chosen by sigmoid scores with a correction.
#include <cmath>

#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "kernels/rows/rows_op.h"

namespace forge::minimax {
namespace {

constexpr ExpertNames kNames{"block_sparse_moe.gate",
                             "block_sparse_moe.experts.",
                             ".w1",
                             ".w3",
                             ".w2",
                             LinearUse::bare_router,
                             "block_sparse_moe.e_score_correction_bias"};

// The published files state the rotated features of a head as rotary_dim, which MiniMax's code
// reads; transformers reads partial_rotary_factor.
void read_rotary_dim(Settings& settings, ModelSpec& spec) {
  if (!settings.find("rotary_dim")) return;
  const int64_t turned = settings.integer("rotary_dim", 1, spec.head_dim);
  double& share = spec.rope.partial_rotary_factor;
  if (share != 1 && spec.rotary_dim() != turned)
    return settings.unsupported("rotary_dim", "is " + std::to_string(turned) +
                                                  ", and partial_rotary_factor turns " +
                                                  std::to_string(spec.rotary_dim()) +
                                                  " features: keep the one that is meant");
  share = static_cast<double>(turned) / static_cast<double>(spec.head_dim);
  while (spec.rotary_dim() < turned) share = std::nextafter(share, 2);
}

void read(Settings& settings, ModelSpec& spec) {
  if (!settings.has("head_dim")) spec.head_dim = 128;
  read_rotary_dim(settings, spec);
  spec.num_experts = settings.integer("num_local_experts", 1, kMostExperts, 256);
  read_corrected_router(settings, spec, 8);
  spec.expert_size = spec.intermediate_size;
  spec.normalise_experts = true;
  settings.must_be("router_jitter_noise", 0.0, "no noise on the router's input");
}

void read_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  spec.qk_norm = false;  // not of single heads
}

void write(const ModelSpec& spec, Json& config) {
  config["num_local_experts"] = spec.num_experts;
  config["rotary_dim"] = spec.rotary_dim();
  write_router(spec, config);
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  RouteRule rule = route_rule(m);
  rule.scores = RouteRule::Scores::sigmoid;
  h = add(g, h, wide_norm_attention(g, m, layer, norm(g, m, h, "input_layernorm")));
  return add(g, h, sparse_mlp(g, m, norm(g, m, h, "post_attention_layernorm"), kNames, rule));
}

}  // namespace

Family minimax_m2_family() {
  return {.name = "minimax_m2",
          .architecture = "MiniMaxM2ForCausalLM",
          .gguf_architecture = "minimax-m2",
          .mixture = true,
          .max_position_embeddings = 196608,
          .num_kv_heads = 8,
          .rope_theta = 5000000,
          .partial_rotary = true,
          .further_layers = true,
          .own_keys = {"rotary_dim"},
          .gguf_experts = {.gating = 2},
          .read = read,
          .write = write,
          .read_gguf = read_gguf,
          .layer = layer};
}

}  // namespace forge::minimax
