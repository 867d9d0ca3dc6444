#include "core/model/families/mamba.h"

#include <cmath>

#include "kernels/delta_rule/delta_rule_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rms_norm/norm_op.h"
#include "kernels/rows/rows_op.h"
#include "kernels/short_conv/short_conv_args.h"
#include "kernels/short_conv/short_conv_op.h"
#include "kernels/swiglu/glu_op.h"

namespace forge {

void read_step_limit(Settings& settings, ModelSpec& spec) {
  const Json* limit = settings.find("time_step_limit");
  if (!limit) return;
  if (!limit->is_array() || limit->size() != 2 || !(*limit)[0].is_number())
    return settings.broken("time_step_limit", "is " + dump_json(*limit).substr(0, 60) + ", expected two numbers");
  spec.least_step = (*limit)[0].get<double>();
  const Json& most = (*limit)[1];
  // JSON has no infinity; transformers writes it as a word.
  const bool unbounded = most.is_null() || most == "inf" || most == "Infinity" || (most.is_number() && most.get<double>() >= 1e30);
  const bool worded = most.is_object() && most.contains("__float__") && most["__float__"] == "Infinity";
  if (!unbounded && !worded)
    settings.unsupported("time_step_limit", "bounds steps at " + dump_json(most).substr(0, 60) + ", forge computes steps without an upper bound");
  if (spec.least_step < 0) settings.broken("time_step_limit", "begins below 0");
}

void read_mamba(Settings& settings, ModelSpec& spec, const MambaDefaults& defaults) {
  spec.state_space = true;
  spec.delta_value_heads = settings.integer("mamba_n_heads", 1, kMostHeads, defaults.heads);
  spec.delta_key_heads = settings.integer("mamba_n_groups", 1, kMostHeads, defaults.groups);
  spec.delta_key_dim = settings.integer("mamba_d_state", 1, kMostHidden, defaults.state);
  spec.conv_width = settings.integer("mamba_d_conv", 1, kMostTaps, 4);
  spec.conv_bias = settings.flag("mamba_conv_bias", true);
  spec.state_bias = settings.flag("mamba_proj_bias", false);
  const int64_t expand = settings.integer("mamba_expand", 1, 64, 2);
  int64_t inner = expand * spec.hidden_size;
  if (defaults.inner && settings.find(defaults.inner)) inner = settings.integer(defaults.inner, 1, kMostIntermediate);
  const Json* head = settings.find("mamba_d_head");
  const bool stated = head && *head != "auto";
  spec.delta_value_dim = stated ? settings.integer("mamba_d_head", 1, kMostHeadDim) : inner / spec.delta_value_heads;
  if (spec.delta_value_dim * spec.delta_value_heads != inner)
    settings.broken("mamba_n_heads", "times mamba_d_head is " + std::to_string(spec.delta_value_dim * spec.delta_value_heads) +
                                         ", expected the width of the values, " + std::to_string(inner));
  if (spec.delta_value_heads % spec.delta_key_heads != 0)
    settings.broken("mamba_n_heads", std::to_string(spec.delta_value_heads) + " is not a multiple of mamba_n_groups, " + std::to_string(spec.delta_key_heads));
  settings.find("mamba_chunk_size");  // how transformers divides a text, which changes no result
  read_step_limit(settings, spec);
}

void write_mamba(const ModelSpec& spec, Json& config) {
  config["mamba_n_heads"] = spec.delta_value_heads;
  config["mamba_n_groups"] = spec.delta_key_heads;
  config["mamba_d_state"] = spec.delta_key_dim;
  config["mamba_d_head"] = spec.delta_value_dim;
  config["mamba_d_conv"] = spec.conv_width;
  config["mamba_conv_bias"] = spec.conv_bias;
  config["mamba_proj_bias"] = spec.state_bias;
  const int64_t inner = spec.delta_value_heads * spec.delta_value_dim;
  if (inner % spec.hidden_size == 0) config["mamba_expand"] = inner / spec.hidden_size;
}

void read_state_layers(Settings& settings, ModelSpec& spec) {
  const Json* types = settings.find("layer_types");
  if (!types) {
    for (int64_t layer = 0; layer < spec.num_layers; ++layer) spec.delta_layers.push_back(layer);
    return;
  }
  if (!types->is_array() || static_cast<int64_t>(types->size()) != spec.num_layers)
    return settings.broken("layer_types", "is not a list of num_hidden_layers names");
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    const Json& type = (*types)[static_cast<size_t>(layer)];
    if (type == "mamba" || type == "linear_attention")
      spec.delta_layers.push_back(layer);
    else if (type != "attention" && type != "full_attention")
      return settings.unsupported("layer_types", "has " + dump_json(type).substr(0, 60) + ", forge computes mamba and attention here");
  }
}

namespace {

ValueId gated(Recorder& g, const ModelSpec& m, ValueId y, ValueId gate, const char* norm) {
  const auto normed = [&](ValueId x) { return m.state_norm_heads > 0 ? part_norm(g, x, norm, m.state_norm_heads, m.rms_norm_eps) : x; };
  if (m.norm_before_gate) return glu(g, gate, normed(y), GateKind::silu);
  return normed(glu(g, gate, y, GateKind::silu));
}

}  // namespace

ValueId mamba_mixer(Recorder& g, const ModelSpec& m, ValueId x, const MambaNames& names, const MambaFactors& f) {
  const int64_t keys = m.delta_key_heads * m.delta_key_dim, inner = m.delta_value_heads * m.delta_value_dim;
  ValueId joined = linear(g, x, {names.in_proj, inner + m.conv_channels() + m.delta_value_heads, m.state_bias});
  if (f != MambaFactors{})
    joined = scale_parts(g, joined, {{inner, f.gate}, {inner, f.x}, {keys, f.b}, {keys, f.c}, {m.delta_value_heads, f.step}});
  auto [gate, mixed, a] = g.split(joined, {inner, m.conv_channels(), m.delta_value_heads});
  auto [v, k, q] = g.split(short_conv(g, mixed, {names.conv, m.conv_width, m.conv_bias, /*silu=*/true}), {inner, keys, keys});
  const DeltaHeads heads{m.delta_key_heads, m.delta_value_heads, m.delta_key_dim, m.delta_value_dim};
  const ValueId y = state_space(g, q, k, v, step_gates(g, a, names.a_log, names.dt_bias, m.least_step), heads, names.skip);
  return linear(g, gated(g, m, y, gate, names.norm), {names.out_proj, m.hidden_size, m.state_bias});
}

}  // namespace forge
