// LFM2 (Liquid AI, 2025): in most layers a short convolution between two products in place of
// attention, and norms of q and k in the others.
//
// A convolution's layer makes three values of the stream, multiplies two, passes the product
// through a filter of a few taps, and multiplies by the third. Decoding keeps the last inputs of
// the filters, as it does for a delta rule without matrices.
#include <algorithm>
#include <numeric>

#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rms_norm/norm_op.h"
#include "kernels/rows/rows_op.h"
#include "kernels/short_conv/short_conv_args.h"
#include "kernels/short_conv/short_conv_op.h"
#include "kernels/swiglu/glu_op.h"

namespace forge::lfm2 {
namespace {

// Returns the width of an MLP by the class's rule: two thirds, times a factor, up to a multiple.
int64_t adjusted(Settings& settings, int64_t size) {
  const double factor = settings.number("block_ffn_dim_multiplier", 1e-3, 1e3, 1);
  const int64_t multiple = settings.integer("block_multiple_of", 1, kMostIntermediate, 256);
  if (!settings.flag("block_auto_adjust_ff_dim", true)) return size;
  const auto part = static_cast<int64_t>(factor * static_cast<double>(2 * size / 3));
  return (part + multiple - 1) / multiple * multiple;
}

// Reads which layers have a convolution: those that layer_types calls so, or that full_attn_idxs
// does not number.
void read_layers(Settings& settings, ModelSpec& spec) {
  const Json* types = settings.find("layer_types");
  const bool numbered = settings.find("full_attn_idxs") != nullptr;
  const std::vector<int64_t> attending = settings.ids("full_attn_idxs");
  if (types && (!types->is_array() || static_cast<int64_t>(types->size()) != spec.num_layers))
    return settings.broken("layer_types", "is not a list of num_hidden_layers names");
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    const Json type = types ? (*types)[static_cast<size_t>(layer)]
                      : numbered && std::ranges::count(attending, layer) == 0
                          ? Json("conv")
                          : Json("full_attention");
    if (type == "conv")
      spec.delta_layers.push_back(layer);
    else if (type != "full_attention")
      return settings.unsupported(
          "layer_types", "has " + dump_json(type) + ", forge computes full_attention and conv here");
  }
}

// Reads all but the MLP.
void read_mixer(Settings& settings, ModelSpec& spec) {
  spec.qk_norm = true;
  if (!settings.has("pad_token_id")) spec.pad_token_id = 0;
  if (settings.find("tie_embedding"))
    spec.tie_word_embeddings = settings.flag("tie_embedding", true);
  read_layers(settings, spec);
  spec.conv_width = settings.integer("conv_L_cache", 1, kMostTaps, 3);
  spec.conv_bias = settings.flag("conv_bias", false);
  if (spec.hidden_size % spec.num_heads != 0)
    settings.broken("num_attention_heads", "does not divide hidden_size");
  if (spec.delta_layers.empty()) return;
  spec.delta_value_heads = spec.num_heads, spec.delta_value_dim = spec.hidden_size / spec.num_heads;
}

void read(Settings& settings, ModelSpec& spec) {
  if (settings.find("block_ff_dim"))
    spec.intermediate_size = settings.integer("block_ff_dim", 1, kMostIntermediate);
  spec.intermediate_size = adjusted(settings, spec.intermediate_size);
  read_mixer(settings, spec);
}

void write_mixer(const ModelSpec& spec, Json& config) {
  config["conv_L_cache"] = spec.conv_width, config["conv_bias"] = spec.conv_bias;
  config["layer_types"] = Json::array();
  for (int64_t layer = 0; layer < spec.num_layers; ++layer)
    config["layer_types"].push_back(spec.delta(layer) ? "conv" : "full_attention");
  config.erase("head_dim");
}

void write(const ModelSpec& spec, Json& config) {
  config["block_auto_adjust_ff_dim"] = false;
  write_mixer(spec, config);
}

// LFM2-8B-A1B: the first layers have an MLP, the others experts, chosen by sigmoid scores with a
// correction.
constexpr ExpertNames kExperts{"feed_forward.gate", "feed_forward.experts.", ".w1",
                               ".w3",               ".w2",                   LinearUse::bare_router,
                               "feed_forward.expert_bias"};

void read_with_experts(Settings& settings, ModelSpec& spec) {
  read_mixer(settings, spec);
  spec.num_experts = settings.integer("num_experts", 1, kMostExperts, 32);
  read_per_token(settings, spec, 4);
  spec.expert_size = settings.integer("moe_intermediate_size", 1, kMostIntermediate, 1792);
  spec.normalise_experts = settings.flag("norm_topk_prob", true);
  spec.expert_scale = settings.number("routed_scaling_factor", 1e-9, 1e9, 1);
  settings.must_be("use_expert_bias", true, "a correction of the scores that experts are chosen by");
  spec.dense_layers.resize(static_cast<size_t>(
      std::min(spec.num_layers, settings.integer("num_dense_layers", 0, kMostLayers, 2))));
  std::iota(spec.dense_layers.begin(), spec.dense_layers.end(), int64_t{0});
}

void write_with_experts(const ModelSpec& spec, Json& config) {
  write_mixer(spec, config);
  config["num_experts"] = spec.num_experts;
  config["num_experts_per_tok"] = spec.experts_per_token;
  config["moe_intermediate_size"] = spec.expert_size;
  config["norm_topk_prob"] = spec.normalise_experts;
  config["routed_scaling_factor"] = spec.expert_scale;
  config["num_dense_layers"] = static_cast<int64_t>(spec.dense_layers.size());
}

ValueId convolution(Recorder& g, const ModelSpec& m, ValueId x) {
  const int64_t width = m.hidden_size;
  auto [before, after, value] =
      g.split(linear(g, x, {"conv.in_proj", 3 * width, m.conv_bias}), {width, width, width});
  const ValueId product = glu(g, before, value, GateKind::product);
  const ValueId mixed = short_conv(g, product, {"conv.conv", m.conv_width, m.conv_bias});
  return linear(g, glu(g, after, mixed, GateKind::product), {"conv.out_proj", width, m.conv_bias});
}

ValueId normed_attention(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x) {
  auto [q, k, v] = project_qkv(g, m, x);
  q = head_norm(g, q, "self_attn.q_layernorm", m.head_dim, m.rms_norm_eps, m.norm_offset);
  k = head_norm(g, k, "self_attn.k_layernorm", m.head_dim, m.rms_norm_eps, m.norm_offset);
  return linear(g, attend(g, m, layer, q, k, v), {"self_attn.out_proj", m.hidden_size});
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  const ValueId x = norm(g, m, h, "operator_norm");
  h = add(g, h, m.delta(layer) ? convolution(g, m, x) : normed_attention(g, m, layer, x));
  const ValueId normed = norm(g, m, h, "ffn_norm");
  if (!m.dense(layer)) {
    RouteRule rule = route_rule(m);
    rule.scores = RouteRule::Scores::sigmoid, rule.sum_eps = 1e-6;
    return add(g, h, sparse_mlp(g, m, normed, kExperts, rule));
  }
  const GatedMlp mlp{.module = "feed_forward",
                     .size = m.intermediate_size,
                     .gate = ".w1",
                     .up = ".w3",
                     .down = ".w2"};
  return add(g, h, gated_mlp(g, m, normed, mlp));
}

}  // namespace

Family lfm2_family() {
  return {.name = "lfm2",
          .architecture = "Lfm2ForCausalLM",
          .max_position_embeddings = 128000,
          .num_kv_heads = 8,
          .norm_eps = 1e-5,
          .rope_theta = 1000000,
          .tied = true,
          .mlp_size = 12288,
          .spelling = {{"rms_norm_eps", "norm_eps"}},
          .modules = {.final_norm = "model.embedding_norm"},
          .read = read,
          .write = write,
          .layer = layer};
}

Family lfm2_moe_family() {
  Family family = lfm2_family();
  family.name = "lfm2_moe", family.architecture = "Lfm2MoeForCausalLM";
  family.mixture = true, family.mlp_size = 7168;
  family.read = read_with_experts, family.write = write_with_experts;
  return family;
}

}  // namespace forge::lfm2
