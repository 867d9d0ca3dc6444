// Falcon-H1 (TII, 2025): in every layer Mamba-2 and attention read the same norm and both add to
// the stream, before Llama's MLP. The outcomes of projections are multiplied by factors of
// config.json.
#include <algorithm>
#include <cmath>

#include "core/lib/base/text.h"
#include "core/model/families/mamba.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rows/rows_op.h"
#include "kernels/swiglu/glu_op.h"

namespace forge::falcon_h1 {
namespace {

constexpr double kMostFactor = 1e6;

// Places of ModelSpec::layer_factors.
enum Factor { kGate, kX, kB, kC, kStep, kQuery, kKey, kValue, kStateOut, kAttentionOut, kMlpGate, kMlpOut, kFactors };

// Returns a list of `count` numbers, or of ones.
std::vector<double> read_factors(Settings& settings, const char* key, size_t count) {
  const std::vector<double> ones(count, 1);
  const Json* list = settings.find(key);
  if (!list) return ones;
  const auto number = [](const Json& value) { return value.is_number() && std::abs(value.get<double>()) < kMostFactor; };
  if (list->is_array() && list->size() == count && std::all_of(list->begin(), list->end(), number)) return list->get<std::vector<double>>();
  settings.broken(key, "is " + dump_json(*list).substr(0, 60) + ", expected " + std::to_string(count) + " numbers");
  return ones;
}

double factor(Settings& settings, const char* key) { return settings.number(key, -kMostFactor, kMostFactor, 1); }

// A factor on what a layer with biases reads cannot be applied to its result.
void refuse_biases(Settings& settings, const char* key, double factor, bool biases) {
  if (factor != 1 && biases) settings.unsupported(key, "is " + format_number(factor) + " beside biases, forge multiplies what the projections make");
}

void read(Settings& settings, ModelSpec& spec) {
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) spec.delta_layers.push_back(layer);
  spec.attention_beside = true;
  read_mamba(settings, spec, {.inner = "mamba_d_ssm"});
  spec.norm_before_gate = settings.flag("mamba_norm_before_gate", true);
  const bool normed = settings.flag("mamba_rms_norm", false);
  spec.state_norm_heads = normed ? spec.delta_key_heads : 0;
  if (!normed) spec.norm_before_gate = false;
  if (settings.flag("projectors_bias", false) != spec.state_bias)
    settings.unsupported("projectors_bias", "differs from mamba_proj_bias, forge computes both or none");
  const std::vector<double> parts = read_factors(settings, "ssm_multipliers", 5), mlp = read_factors(settings, "mlp_multipliers", 2);
  const double ssm_in = factor(settings, "ssm_in_multiplier"), attention_in = factor(settings, "attention_in_multiplier");
  refuse_biases(settings, "ssm_in_multiplier", ssm_in, spec.state_bias);
  refuse_biases(settings, "attention_in_multiplier", attention_in, spec.qkv_bias);
  std::vector<double>& f = spec.layer_factors;
  for (const double part : parts) f.push_back(part * ssm_in);
  f.insert(f.end(), {attention_in, attention_in * factor(settings, "key_multiplier"), attention_in});
  f.insert(f.end(), {factor(settings, "ssm_out_multiplier"), factor(settings, "attention_out_multiplier"), mlp[0], mlp[1]});
  spec.embedding_scale = factor(settings, "embedding_multiplier");
  spec.logit_scale = factor(settings, "lm_head_multiplier");
  settings.find("num_logits_to_keep");  // of generation in transformers
}

void write(const ModelSpec& spec, Json& config) {
  write_mamba(spec, config);
  const std::vector<double>& f = spec.layer_factors;
  config["mamba_d_ssm"] = spec.delta_value_heads * spec.delta_value_dim;
  config["mamba_rms_norm"] = spec.state_norm_heads > 0;
  config["mamba_norm_before_gate"] = spec.norm_before_gate;
  config["projectors_bias"] = spec.state_bias;
  config["ssm_multipliers"] = std::vector<double>(f.begin() + kGate, f.begin() + kQuery);
  config["attention_in_multiplier"] = f[kQuery];
  config["key_multiplier"] = f[kKey] / f[kQuery];
  config["ssm_out_multiplier"] = f[kStateOut];
  config["attention_out_multiplier"] = f[kAttentionOut];
  config["mlp_multipliers"] = {f[kMlpGate], f[kMlpOut]};
  config["embedding_multiplier"] = spec.embedding_scale;
  config["lm_head_multiplier"] = spec.logit_scale;
}

ValueId scaled(Recorder& g, const ModelSpec& m, ValueId x, Factor factor) {
  const double by = m.layer_factors[factor];
  return by == 1 ? x : scale(g, x, by);
}

ValueId attention(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x) {
  const int64_t q_size = m.num_heads * m.head_dim, kv_size = m.num_kv_heads * m.head_dim;
  auto [q, k, v] = linear(g, x,
                          {{"self_attn.q_proj", q_size, m.qkv_bias}, {"self_attn.k_proj", kv_size, m.qkv_bias}, {"self_attn.v_proj", kv_size, m.qkv_bias}});
  const ValueId mixed = attend(g, m, layer, scaled(g, m, q, kQuery), scaled(g, m, k, kKey), scaled(g, m, v, kValue));
  return scaled(g, m, linear(g, mixed, {"self_attn.o_proj", m.hidden_size, m.o_bias}), kAttentionOut);
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  const std::vector<double>& f = m.layer_factors;
  const ValueId x = norm(g, m, h, "input_layernorm");
  const ValueId state = scaled(g, m, mamba_mixer(g, m, x, kMamba, {f[kGate], f[kX], f[kB], f[kC], f[kStep]}), kStateOut);
  h = add(g, h, add(g, attention(g, m, layer, x), state));
  const ValueId y = norm(g, m, h, "pre_ff_layernorm");
  auto [gate, up] = linear(g, y, {{"feed_forward.gate_proj", m.intermediate_size, m.mlp_bias}, {"feed_forward.up_proj", m.intermediate_size, m.mlp_bias}});
  const ValueId made = linear(g, glu(g, scaled(g, m, gate, kMlpGate), up, GateKind::silu), {"feed_forward.down_proj", m.hidden_size, m.mlp_bias});
  return add(g, h, scaled(g, m, made, kMlpOut));
}

}  // namespace

Family falcon_h1_family() {
  return {.name = "falcon_h1",
          .architecture = "FalconH1ForCausalLM",
          .max_position_embeddings = 8192,
          .num_kv_heads = 8,
          .norm_eps = 1e-5,
          .modules = {.final_norm = "model.final_layernorm"},
          .flags = {kAttentionBias, kMlpBias},
          .read = read,
          .write = write,
          .layer = layer};
}

}  // namespace forge::falcon_h1
