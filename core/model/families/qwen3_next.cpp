// Qwen3-Next (Qwen Team, 2025): three of four layers mix by a gated delta rule behind a short
// convolution, the fourth by attention with a gate on its result; norms multiply by 1 + weight, and
// an MLP is Qwen2-MoE's experts with a shared one.
//
// Qwen3.5 (2026): the same layers with their projections apart and an MLP without experts, or with
// them in all layers. Its checkpoints are classes with towers, whose language model this is
// (wrapper.cpp); text has one position on all three axes of its angles.
#include <algorithm>

#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "kernels/delta_rule/delta_rule_op.h"
#include "kernels/latent/heads_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rms_norm/norm_op.h"
#include "kernels/rows/rows_op.h"
#include "kernels/short_conv/short_conv_args.h"
#include "kernels/short_conv/short_conv_op.h"
#include "kernels/swiglu/glu_op.h"

namespace forge::qwen3_next {
namespace {

constexpr int64_t kPeriod = 4;  // every fourth layer attends

// Reads the layers with a delta rule: those that the file lists, else all but every
// `full_attention_interval`-th one.
void read_delta_layers(Settings& settings, ModelSpec& spec) {
  const int64_t period = settings.integer("full_attention_interval", 1, kMostLayers, kPeriod);
  const Json* types = settings.find("layer_types");
  if (types && (!types->is_array() || static_cast<int64_t>(types->size()) != spec.num_layers))
    return settings.broken("layer_types", "is not a list of num_hidden_layers names");
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    bool attends = (layer + 1) % period == 0;
    if (types) {
      const Json& type = (*types)[static_cast<size_t>(layer)];
      attends = type == "full_attention" || type == "attention";
      if (!attends && type != "linear_attention")
        return settings.unsupported(
            "layer_types",
            "has " + dump_json(type) + ", forge computes full_attention and linear_attention here");
    }
    if (!attends) spec.delta_layers.push_back(layer);
  }
}

void read_delta(Settings& settings, ModelSpec& spec) {
  spec.qk_norm = spec.attention_gate = true;
  spec.norm_offset = 1;
  if (!settings.has("head_dim")) spec.head_dim = 256;
  spec.conv_width = settings.integer("linear_conv_kernel_dim", 1, kMostTaps, 4);
  spec.delta_key_heads = settings.integer("linear_num_key_heads", 1, kMostHeads, 16);
  spec.delta_value_heads = settings.integer("linear_num_value_heads", 1, kMostHeads, 32);
  spec.delta_key_dim = settings.integer("linear_key_head_dim", 1, kMostHeadDim, 128);
  spec.delta_value_dim = settings.integer("linear_value_head_dim", 1, kMostHeadDim, 128);
  if (spec.delta_value_heads % spec.delta_key_heads != 0)
    settings.broken("linear_num_value_heads", "is " + std::to_string(spec.delta_value_heads) +
                                                  ", no multiple of linear_num_key_heads, " +
                                                  std::to_string(spec.delta_key_heads));
  read_delta_layers(settings, spec);
}

// Qwen3.5's frequencies turn by three axes where a text has images; a file may say how many by
// each.
void read_sections(Settings& settings, ModelSpec& spec) {
  spec.rope_sections = {11, 11, 10};
  for (const char* table : {"rope_parameters", "rope_scaling"}) {
    const Json* rope = settings.find(table);
    const Json sections = rope && rope->is_object() ? rope->value("mrope_section", Json()) : Json();
    const auto fits = [](const Json& number) { return number.is_number_integer() && number >= 0 && number <= kMostHeadDim; };
    if (sections.is_null()) continue;
    if (sections.is_array() && sections.size() == 3 && std::all_of(sections.begin(), sections.end(), fits))
      spec.rope_sections = sections.get<std::vector<int64_t>>();
    else
      settings.broken(table, "has mrope_section " + dump_json(sections).substr(0, 60) + ", expected three numbers of frequencies");
  }
}

// Reads a GGUF's sizes. Only every so many layers attend.
void read_delta_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  spec.qk_norm = spec.attention_gate = true;
  spec.norm_offset = 1;
  spec.conv_width = settings.integer(".ssm.conv_kernel", 1, kMostTaps);
  spec.delta_key_heads = settings.integer(".ssm.group_count", 1, kMostHeads);
  spec.delta_value_heads = settings.integer(".ssm.time_step_rank", 1, kMostHeads);
  spec.delta_key_dim = settings.integer(".ssm.state_size", 1, kMostHeadDim);
  const int64_t values = settings.integer(".ssm.inner_size", 1, kMostHeads * kMostHeadDim);
  if (spec.delta_value_heads % spec.delta_key_heads != 0 || values % spec.delta_value_heads != 0)
    settings.broken(".ssm.time_step_rank", "is " + std::to_string(spec.delta_value_heads) +
                                               ", no multiple of ssm.group_count or no divisor of ssm.inner_size");
  spec.delta_value_dim = values / spec.delta_value_heads;
  const int64_t period = settings.integer(".full_attention_interval", 1, kMostLayers + 1, kPeriod);
  for (int64_t layer = 0; layer < spec.num_layers; ++layer)
    if ((layer + 1) % period != 0) spec.delta_layers.push_back(layer);
}

void read_mixture_gguf(Settings& settings, ModelSpec& spec) {
  read_delta_gguf(settings, spec);
  spec.shared_expert_size = settings.integer(".expert_shared_feed_forward_length", 1, kMostIntermediate);
}

void read_next(Settings& settings, ModelSpec& spec) {
  read_delta(settings, spec);
  qwen::read_mixture(settings, spec, {512, 10, 512, 512});
  if (!settings.has("norm_topk_prob")) spec.normalise_experts = true;
}

void read_dense(Settings& settings, ModelSpec& spec) {
  read_delta(settings, spec);
  read_sections(settings, spec);
}

// The weights of a token's experts always have the sum 1.
void read_mixture(Settings& settings, ModelSpec& spec) {
  read_dense(settings, spec);
  qwen::read_mixture(settings, spec, {256, 8, 512, 512});
  spec.normalise_experts = true;
}

void write_delta(const ModelSpec& spec, Json& config) {
  config["linear_conv_kernel_dim"] = spec.conv_width;
  config["linear_num_key_heads"] = spec.delta_key_heads;
  config["linear_num_value_heads"] = spec.delta_value_heads;
  config["linear_key_head_dim"] = spec.delta_key_dim;
  config["linear_value_head_dim"] = spec.delta_value_dim;
  config["layer_types"] = Json::array();
  for (int64_t layer = 0; layer < spec.num_layers; ++layer)
    config["layer_types"].push_back(spec.delta(layer) ? "linear_attention" : "full_attention");
}

void write_next(const ModelSpec& spec, Json& config) {
  write_delta(spec, config);
  qwen::write_mixture(spec, config);
  config["shared_expert_intermediate_size"] = spec.shared_expert_size;
  write_router(spec, config);
}

void write_mixture(const ModelSpec& spec, Json& config) {
  write_next(spec, config);
  for (const char* key :
       {"norm_topk_prob", "mlp_only_layers", "decoder_sparse_step", "intermediate_size"})
    config.erase(key);
}

DeltaHeads delta_heads_of(const ModelSpec& m) {
  return {m.delta_key_heads, m.delta_value_heads, m.delta_key_dim, m.delta_value_dim};
}

// The projections of a layer with a delta rule: q, k and v side by side, the gate of the result,
// and what both gates of the rule are made of.
struct DeltaInputs {
  ValueId qkv, z, b, a;
};

// Qwen3-Next's projections go group by group: a head of q and k, and the heads of v that it serves.
DeltaInputs project_joined(Recorder& g, const ModelSpec& m, ValueId x) {
  const int64_t values = m.delta_value_heads * m.delta_value_dim,
                shared = m.delta_value_heads / m.delta_key_heads;
  auto [joined, gates] = linear(g, x,
                                {{"linear_attn.in_proj_qkvz", m.conv_channels() + values},
                                 {"linear_attn.in_proj_ba", 2 * m.delta_value_heads}});
  auto [qkv, z] = g.split(
      split_groups(g, joined, {m.delta_key_heads, m.delta_key_dim, shared * m.delta_value_dim}),
      {m.conv_channels(), values});
  auto [b, a] = g.split(split_groups(g, gates, {m.delta_key_heads, 0, shared}),
                        {m.delta_value_heads, m.delta_value_heads});
  return {qkv, z, b, a};
}

DeltaInputs project_apart(Recorder& g, const ModelSpec& m, ValueId x) {
  auto [qkv, z, b, a] = linear(g, x,
                               {{"linear_attn.in_proj_qkv", m.conv_channels()},
                                {"linear_attn.in_proj_z", m.delta_value_heads * m.delta_value_dim},
                                {"linear_attn.in_proj_b", m.delta_value_heads},
                                {"linear_attn.in_proj_a", m.delta_value_heads}});
  return {qkv, z, b, a};
}

ValueId delta_mixer(Recorder& g, const ModelSpec& m, const DeltaInputs& x) {
  const int64_t keys = m.delta_key_heads * m.delta_key_dim,
                values = m.delta_value_heads * m.delta_value_dim;
  const ValueId mixed =
      short_conv(g, x.qkv, {"linear_attn.conv1d", m.conv_width, /*bias=*/false, /*silu=*/true});
  auto [q, k, v] = g.split(mixed, {keys, keys, values});
  const ValueId gates = delta_gates(g, x.b, x.a, "linear_attn.A_log", "linear_attn.dt_bias");
  const ValueId y = head_norm(g, delta_rule(g, q, k, v, gates, delta_heads_of(m)),
                              "linear_attn.norm", m.delta_value_dim, m.rms_norm_eps);
  return linear(g, glu(g, x.z, y, GateKind::silu), {"linear_attn.out_proj", m.hidden_size});
}

// Attention whose q_proj also makes a gate of the result, head by head.
ValueId gated_attention(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x) {
  const int64_t q_size = m.num_heads * m.head_dim, kv_size = m.num_kv_heads * m.head_dim;
  auto [both, k_heads, v] = linear(g, x,
                                   {{"self_attn.q_proj", 2 * q_size, m.qkv_bias},
                                    {"self_attn.k_proj", kv_size, m.qkv_bias},
                                    {"self_attn.v_proj", kv_size, m.qkv_bias}});
  auto [q_heads, gate] =
      g.split(split_groups(g, both, {m.num_heads, 0, m.head_dim}), {q_size, q_size});
  const ValueId q = head_norm(g, q_heads, "self_attn.q_norm", m.head_dim, m.rms_norm_eps,
                              m.norm_offset),
                k = head_norm(g, k_heads, "self_attn.k_norm", m.head_dim, m.rms_norm_eps,
                              m.norm_offset);
  const ValueId mixed = attend(g, m, layer, q, k, v);
  return linear(g, glu(g, gate, mixed, GateKind::sigmoid),
                {"self_attn.o_proj", m.hidden_size, m.o_bias});
}

ValueId layer_with(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h,
                   DeltaInputs (*project)(Recorder&, const ModelSpec&, ValueId)) {
  const ValueId x = norm(g, m, h, "input_layernorm");
  h = add(g, h,
          m.delta(layer) ? delta_mixer(g, m, project(g, m, x)) : gated_attention(g, m, layer, x));
  return add(g, h, qwen::mlp(g, m, layer, norm(g, m, h, "post_attention_layernorm")));
}

ValueId next_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  return layer_with(g, m, layer, h, project_joined);
}
ValueId layer_apart(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  return layer_with(g, m, layer, h, project_apart);
}

}  // namespace

Family qwen3_next_family() {
  return {.name = "qwen3_next",
          .architecture = "Qwen3NextForCausalLM",
          .gguf_architecture = "qwen3next",
          .mixture = true,
          .max_position_embeddings = 32768,
          .num_kv_heads = 2,
          .partial_rotary = true,
          .partial_rotary_factor = 0.25,
          .flags = {kAttentionBias},
          .read = read_next,
          .write = write_next,
          .read_gguf = read_mixture_gguf,
          .layer = next_layer};
}

Family qwen3_5_family() {
  Family family = qwen3_next_family();
  family.name = "qwen3_5_text";
  family.architecture = "Qwen3_5ForCausalLM";
  family.gguf_architecture = "qwen35";
  family.wrapped_gguf = {"qwen35"};
  family.mixture = false;
  family.image_axes = true;
  family.num_kv_heads = 4;
  family.read = read_dense;
  family.write = write_delta;
  family.read_gguf = read_delta_gguf;
  family.layer = layer_apart;
  return family;
}

Family qwen3_5_moe_family() {
  Family family = qwen3_5_family();
  family.name = "qwen3_5_moe_text";
  family.architecture = "Qwen3_5MoeForCausalLM";
  family.gguf_architecture = "qwen35moe";
  family.wrapped_gguf = {"qwen35moe"};
  family.mixture = true;
  family.num_kv_heads = 2;
  family.mlp_size = 512;
  family.spelling = {{"intermediate_size", "moe_intermediate_size"}};  // there is no other MLP
  family.read = read_mixture;
  family.write = write_mixture;
  family.read_gguf = read_mixture_gguf;
  return family;
}

}  // namespace forge::qwen3_next
