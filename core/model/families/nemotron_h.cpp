// Nemotron-H, Nemotron Nano 2 and Nemotron 3 (NVIDIA, 2025): every layer is one of Mamba-2,
// attention without positions, an MLP without a gate, max(x, 0)², and a mixture of such MLPs beside
// a shared one. Experts of the larger models read and write a narrower vector, made from the
// stream.
#include <algorithm>

#include "core/model/families/mamba.h"
#include "core/model/families/routed_experts.h"
#include "kernels/activation/activation_op.h"
#include "kernels/experts/expert_linear_op.h"
#include "kernels/experts/experts_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rows/rows_op.h"
#include "kernels/short_conv/short_conv_args.h"

namespace forge::nemotron_h {
namespace {

constexpr MambaNames kMixer{"mixer.in_proj", "mixer.conv1d", "mixer.A_log", "mixer.dt_bias", "mixer.D", "mixer.norm", "mixer.out_proj"};

enum class Mixer { state_space, attention, mlp, experts, unknown };

Mixer mixer_of(const Json& type) {
  if (type == "M" || type == "mamba" || type == "linear_attention") return Mixer::state_space;
  if (type == "*" || type == "attention" || type == "full_attention") return Mixer::attention;
  if (type == "-" || type == "mlp") return Mixer::mlp;
  return type == "E" || type == "moe" ? Mixer::experts : Mixer::unknown;
}

// Returns the layers' types: letters of hybrid_override_pattern, or names of layers_block_type.
Json layer_types(Settings& settings) {
  const Json* pattern = settings.find("hybrid_override_pattern");
  if (const Json* names = settings.find("layers_block_type")) return *names;
  if (!pattern) return Json{"mamba", "moe", "attention", "mlp"};
  if (!pattern->is_string()) return *pattern;
  Json letters = Json::array();
  for (const char letter : pattern->get<std::string>()) letters.push_back(std::string(1, letter));
  return letters;
}

void read_layers(Settings& settings, ModelSpec& spec) {
  const Json types = layer_types(settings);
  const char* key = settings.find("layers_block_type") ? "layers_block_type" : "hybrid_override_pattern";
  if (!types.is_array() || static_cast<int64_t>(types.size()) != spec.num_layers)
    return settings.broken(key, "does not list num_hidden_layers, " + std::to_string(spec.num_layers) + ", layers");
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    const Json& type = types[static_cast<size_t>(layer)];
    const Mixer mixer = mixer_of(type);
    if (mixer == Mixer::unknown) return settings.broken(key, "has " + dump_json(type).substr(0, 60) + ", expected M, *, - or E");
    if (mixer == Mixer::state_space) spec.delta_layers.push_back(layer);
    if (mixer == Mixer::mlp || mixer == Mixer::experts) spec.mlp_layers.push_back(layer);
    if (mixer != Mixer::experts) spec.dense_layers.push_back(layer);
  }
}

void read_experts(Settings& settings, ModelSpec& spec) {
  spec.num_experts = settings.integer("n_routed_experts", 1, kMostExperts, 8);
  spec.expert_size = settings.integer("moe_intermediate_size", 1, kMostIntermediate, 7688);
  spec.shared_expert_size = settings.integer("moe_shared_expert_intermediate_size", 1, kMostIntermediate, 7688);
  spec.expert_latent = settings.find("moe_latent_size") ? settings.integer("moe_latent_size", 1, kMostHidden) : 0;
  spec.expert_scale = settings.number("routed_scaling_factor", 1e-9, 1e9, 1);
  read_routed_choice(settings, spec, {.per_token = 2});
}

void read_mixer(Settings& settings, ModelSpec& spec) {
  spec.state_space = true;
  spec.delta_value_heads = settings.integer("mamba_num_heads", 1, kMostHeads, 128);
  spec.delta_value_dim = settings.integer("mamba_head_dim", 1, kMostHeadDim, 64);
  spec.delta_key_heads = spec.state_norm_heads = settings.integer("n_groups", 1, kMostHeads, 8);
  spec.delta_key_dim = settings.integer("ssm_state_size", 1, kMostHidden, 128);
  spec.conv_width = settings.integer("conv_kernel", 1, kMostTaps, 4);
  spec.conv_bias = settings.flag("use_conv_bias", true);
  spec.state_bias = settings.flag("use_bias", false);
  spec.least_step = settings.number("time_step_min", 0, 1e9, 0.001);
  settings.must_be("mamba_hidden_act", "silu", "silu after the convolution");
  // These change no result: they divide a text, draw first weights and predict further tokens. The
  // values are as wide as their heads together.
  for (const char* idle : {"chunk_size", "expand", "time_step_floor", "time_step_max", "time_step_limit", "num_nextn_predict_layers",
                           "mtp_layers_block_type", "mtp_hybrid_override_pattern"})
    settings.find(idle);
  if (spec.delta_value_heads % spec.delta_key_heads != 0)
    settings.broken("mamba_num_heads", std::to_string(spec.delta_value_heads) + " is not a multiple of n_groups, " + std::to_string(spec.delta_key_heads));
}

void read(Settings& settings, ModelSpec& spec) {
  if (!settings.has("head_dim")) spec.head_dim = 128;
  read_layers(settings, spec);
  read_mixer(settings, spec);
  spec.rope = {.partial_rotary_factor = 0};
  if (static_cast<int64_t>(spec.dense_layers.size()) < spec.num_layers)
    read_experts(settings, spec);
  else
    spec.dense_layers.clear();
  // Without experts these change nothing.
  for (const char* idle : {"n_routed_experts", "moe_intermediate_size", "moe_shared_expert_intermediate_size", "moe_latent_size",
                           "num_experts_per_tok", "routed_scaling_factor", "n_group", "topk_group", "norm_topk_prob"})
    settings.find(idle);
  settings.find("num_logits_to_keep");  // of generation in transformers
}

void write(const ModelSpec& spec, Json& config) {
  config["layers_block_type"] = Json::array();
  for (int64_t layer = 0; layer < spec.num_layers; ++layer)
    config["layers_block_type"].push_back(spec.delta(layer) ? "mamba" : spec.attends(layer) ? "attention" : spec.dense(layer) ? "mlp" : "moe");
  config["mamba_num_heads"] = spec.delta_value_heads;
  config["mamba_head_dim"] = spec.delta_value_dim;
  config["n_groups"] = spec.delta_key_heads;
  config["ssm_state_size"] = spec.delta_key_dim;
  config["conv_kernel"] = spec.conv_width;
  config["use_conv_bias"] = spec.conv_bias;
  config["use_bias"] = spec.state_bias;
  config["time_step_min"] = spec.least_step;
  config.erase("rope_parameters"), config.erase("rope_theta");
  if (spec.num_experts == 0) return;
  write_routed_experts(spec, config);
  for (const char* key : {"n_shared_experts", "first_k_dense_replace"}) config.erase(key);
  config["moe_shared_expert_intermediate_size"] = spec.shared_expert_size;
  if (spec.expert_latent > 0) config["moe_latent_size"] = spec.expert_latent;
}

ValueId attention(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x) {
  const int64_t kv_size = m.num_kv_heads * m.head_dim;
  auto [q, k, v] = linear(g, x, {{"mixer.q_proj", m.num_heads * m.head_dim}, {"mixer.k_proj", kv_size}, {"mixer.v_proj", kv_size}});
  return linear(g, attend(g, m, layer, q, k, v), {"mixer.o_proj", m.hidden_size});
}

ValueId shared_mlp(Recorder& g, const ModelSpec& m, ValueId x) {
  x = linear(g, x, {"mixer.shared_experts.up_proj", m.shared_expert_size, m.mlp_bias});
  return linear(g, activation(g, x, ActivationKind::relu2), {"mixer.shared_experts.down_proj", m.hidden_size, m.mlp_bias});
}

ValueId mixture(Recorder& g, const ModelSpec& m, ValueId x) {
  const Routing routing = route(g, linear(g, x, {"mixer.gate", m.num_experts, false, LinearUse::bare_router}), sigmoid_rule(m),
                                "mixer.gate.e_score_correction_bias");
  const int64_t width = m.expert_latent > 0 ? m.expert_latent : m.hidden_size;
  const ValueId in = m.expert_latent > 0 ? linear(g, x, {"mixer.fc1_latent_proj", width, m.mlp_bias}) : x;
  const ValueId up = expert_linear(g, dispatch(g, in, routing), routing, "mixer.experts.", ".up_proj", m.expert_size);
  const ValueId down = expert_linear(g, activation(g, up, ActivationKind::relu2), routing, "mixer.experts.", ".down_proj", width);
  ValueId routed = combine(g, down, routing);
  if (m.expert_latent > 0) routed = linear(g, routed, {"mixer.fc2_latent_proj", m.hidden_size, m.mlp_bias});
  return add(g, routed, shared_mlp(g, m, x));
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  const ValueId x = norm(g, m, h, "norm");
  if (m.delta(layer)) return add(g, h, mamba_mixer(g, m, x, kMixer));
  if (m.attends(layer)) return add(g, h, attention(g, m, layer, x));
  if (!m.dense(layer)) return add(g, h, mixture(g, m, x));
  return add(g, h, plain_mlp(g, m, x, "mixer.up_proj", "mixer.down_proj", ActivationKind::relu2));
}

}  // namespace

Family nemotron_h_family() {
  return {.name = "nemotron_h",
          .architecture = "NemotronHForCausalLM",
          .mixture = true,
          .max_position_embeddings = 4096,
          .num_kv_heads = 8,
          .activation = "relu2",
          .norm_eps = 1e-5,
          .mlp_size = 21504,
          .spelling = {{"rms_norm_eps", "layer_norm_epsilon"}, {"hidden_act", "mlp_hidden_act"}},
          .modules = {.embedding = "model.embeddings", .final_norm = "model.norm_f"},
          .flags = {kMlpBias},
          .read = read,
          .write = write,
          .layer = layer};
}

}  // namespace forge::nemotron_h
