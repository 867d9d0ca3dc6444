// Gemma 4, the text model (2026): Gemma 3's layer, with norms that multiply by their weight alone
// and a number of its own that multiplies what each layer gives. Layers that see the whole text
// have wider heads, fewer of keys, of which a quarter of the frequencies turn, and in most models
// take their keys for values. Values are normed by head, without a weight. A mixture has experts
// beside the MLP of every layer, and a number for each that multiplies its weight. In the small
// models each layer has an embedding of its own, which its result gates, and the last layers attend
// to the keys and values of earlier ones.
#include <algorithm>
#include <cmath>

#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "core/model/families/parameters.h"
#include "kernels/attention/attention_op.h"
#include "kernels/embedding/embedding_op.h"
#include "kernels/experts/expert_linear_op.h"
#include "kernels/experts/experts_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rms_norm/norm_op.h"
#include "kernels/rope/rope_op.h"
#include "kernels/rows/rows_op.h"
#include "kernels/swiglu/glu_op.h"

namespace forge::gemma4 {
namespace {

constexpr int64_t kWindow = 512, kPeriod = 6, kFullHeadDim = 512;
constexpr double kMostCap = 1e6;

// Reads which layers have a window. The last has none, whatever the file says.
void read_layers(Settings& settings, ModelSpec& spec) {
  spec.sliding_window = settings.integer("sliding_window", 1, kMostPositions, kWindow);
  read_layer_types(settings, spec, [](int64_t layer) { return (layer + 1) % kPeriod == 0; });
  if (const int64_t last = spec.num_layers - 1; spec.windowed(last)) {
    spec.full_layers.push_back(last);
    if (spec.num_layers == 1)
      spec.sliding_window = 0, spec.full_layers.clear(), spec.window_rope_theta = 0;
  }
}

// Reads a layer's entry of per_layer_config, which must be that of every layer without a window.
void read_entry(Settings& settings, const std::string& layer, const Json& entry, ModelSpec& spec) {
  Settings own(entry, settings.name() + ": per_layer_config." + layer);
  const int64_t width = own.integer("head_dim", 2, kMostHeadDim, spec.head_dim),
                heads = own.integer("num_key_value_heads", 1, kMostHeads, spec.num_kv_heads);
  if (spec.full_head_dim > 0 && (spec.full_head_dim != width || spec.full_kv_heads != heads))
    settings.unsupported("per_layer_config", "has other heads in layer " + layer +
                                                 " than in an earlier one; forge computes "
                                                 "one kind for all layers without a window");
  spec.full_head_dim = width, spec.full_kv_heads = heads;
  settings.absorb(own, "per_layer_config." + layer, [](const std::string&) { return false; });
}

// Reads heads as transformers writes them since 5.15: by layer.
void read_layer_entries(Settings& settings, const Json& layers, ModelSpec& spec) {
  if (!layers.is_object()) return settings.broken("per_layer_config", "is not an object of layers");
  int64_t entries = 0, full = 0;
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    const auto entry = layers.find(std::to_string(layer));
    full += !spec.windowed(layer);
    if (entry == layers.end()) continue;
    ++entries;
    if (!entry->is_object() || spec.windowed(layer))
      return settings.unsupported("per_layer_config",
                                  "has an entry for layer " + std::to_string(layer) +
                                      ", forge computes other heads in layers without a window");
    read_entry(settings, std::to_string(layer), *entry, spec);
  }
  if (entries != static_cast<int64_t>(layers.size()) || (entries > 0 && entries != full))
    settings.unsupported("per_layer_config",
                         "does not have one entry for each layer without a window");
}

// Reads the heads of layers without a window.
void read_heads(Settings& settings, ModelSpec& spec) {
  if (!settings.has("head_dim")) spec.head_dim = 256;
  spec.keys_as_values = settings.flag("attention_k_eq_v", false);
  const int64_t width = settings.integer("global_head_dim", 2, kMostHeadDim, kFullHeadDim),
                heads = settings.integer("num_global_key_value_heads", 1, kMostHeads,
                                         spec.num_kv_heads);
  if (const Json* layers = settings.find("per_layer_config"))
    return read_layer_entries(settings, *layers, spec);
  spec.full_head_dim = width, spec.full_kv_heads = spec.keys_as_values ? heads : spec.num_kv_heads;
}

void read_positions(Settings& settings, ModelSpec& spec) {
  if (!settings.find("rope_parameters"))
    spec.rope = {.type = RopeType::proportional, .theta = 1e6, .partial_rotary_factor = 0.25};
  else if (spec.rope.type != RopeType::proportional && spec.rope.partial_rotary_factor != 1)
    settings.unsupported("rope_parameters",
                         "has a partial_rotary_factor without rope_type proportional, which "
                         "transformers ignores: remove it");
}

// Reads how many of the last layers attend to keys and values of earlier ones.
void read_shared_layers(Settings& settings, ModelSpec& spec) {
  spec.shared_kv_layers = settings.integer("num_kv_shared_layers", 0, spec.num_layers - 1, 0);
  const bool wide = settings.flag("use_double_wide_mlp", false);
  spec.wide_shared_mlps = wide && spec.shared_kv_layers > 0;
  for (int64_t layer = spec.num_layers - spec.shared_kv_layers; layer < spec.num_layers; ++layer)
    if (spec.windowed(spec.kv_layer(layer)) != spec.windowed(layer))
      return settings.broken("num_kv_shared_layers", "is " + std::to_string(spec.shared_kv_layers) +
                                                         ", and no layer of layer " +
                                                         std::to_string(layer) +
                                                         "'s type is before those that share");
}

// Reads the sizes of the table that each layer has a part of.
void read_layer_inputs(Settings& settings, ModelSpec& spec) {
  spec.layer_input_size = settings.integer("hidden_size_per_layer_input", 0, kMostHidden, 256);
  const int64_t rows = settings.integer("vocab_size_per_layer_input", 1, kMostVocab, 262144);
  if (spec.layer_input_size == 0) return;
  spec.layer_input_vocab = rows;
  if (rows < spec.vocab_size)
    settings.broken("vocab_size_per_layer_input",
                    "is less than vocab_size, " + std::to_string(spec.vocab_size));
}

void read_experts(Settings& settings, ModelSpec& spec) {
  if (!settings.flag("enable_moe_block", false)) {
    for (const char* key : {"num_experts", "top_k_experts", "moe_intermediate_size"})
      settings.find(key);
    return;
  }
  spec.num_experts = settings.integer("num_experts", 1, kMostExperts);
  spec.experts_per_token = settings.integer("top_k_experts", 1, kMostExperts);
  spec.expert_size = settings.integer("moe_intermediate_size", 1, kMostIntermediate);
  spec.joined_experts = spec.normalise_experts = true;
  if (spec.experts_per_token > spec.num_experts)
    settings.broken("top_k_experts",
                    "is more than the number of experts, " + std::to_string(spec.num_experts));
}

void read(Settings& settings, ModelSpec& spec) {
  spec.embedding_scale = std::sqrt(static_cast<double>(spec.hidden_size));
  spec.attention_scale = 1;
  spec.qk_norm = true;
  if (const Json* sight = settings.find("use_bidirectional_attention"); sight && *sight != "vision")
    settings.unsupported("use_bidirectional_attention",
                         "is " + dump_json(*sight) +
                             ", forge computes causal attention of texts (null or \"vision\")");
  if (settings.find("final_logit_softcapping"))
    spec.logit_softcap = settings.number("final_logit_softcapping", 1e-3, kMostCap);
  read_layers(settings, spec);
  read_heads(settings, spec);
  read_positions(settings, spec);
  read_experts(settings, spec);
  read_shared_layers(settings, spec);
  read_layer_inputs(settings, spec);
}

void write(const ModelSpec& spec, Json& config) {
  config["final_logit_softcapping"] =
      spec.logit_softcap > 0 ? Json(spec.logit_softcap) : Json(nullptr);
  config["global_head_dim"] = spec.full_head_dim > 0 ? spec.full_head_dim : spec.head_dim;
  config["attention_k_eq_v"] = spec.keys_as_values;
  if (spec.keys_as_values) config["num_global_key_value_heads"] = spec.full_kv_heads;
  config["num_kv_shared_layers"] = spec.shared_kv_layers;
  config["use_double_wide_mlp"] = spec.wide_shared_mlps;
  config["hidden_size_per_layer_input"] = spec.layer_input_size;
  if (spec.layer_input_size > 0) config["vocab_size_per_layer_input"] = spec.layer_input_vocab;
  config["enable_moe_block"] = spec.num_experts > 0;
  if (spec.num_experts > 0)
    config["num_experts"] = spec.num_experts, config["top_k_experts"] = spec.experts_per_token,
    config["moe_intermediate_size"] = spec.expert_size;
  write_windows(spec, config);
  if (spec.sliding_window == 0) config["sliding_window"] = kWindow;
  config.erase("rope_theta");
  config["rope_parameters"] = {
      {"full_attention", config["rope_parameters"]},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", spec.window_rope_theta}}}};
  if (spec.sliding_window == 0) config["rope_parameters"].erase("sliding_attention");
}

// Returns q after its norm and its turn, mixed with the keys and values of an earlier layer.
ValueId attend_to_earlier(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x) {
  const int64_t width = m.head_width(layer), source = m.kv_layer(layer);
  const ValueId q =
      head_norm(g, linear(g, x, {"self_attn.q_proj", m.num_heads * width, m.qkv_bias}),
                "self_attn.q_norm", width, m.rms_norm_eps);
  const bool window_angles = m.window_rope_theta > 0 && m.windowed(layer);
  const ValueId turned = rope(g, q, heads_of(m, layer), {.window_angles = window_angles});
  const auto own = std::ranges::find_if(
      g.graph.ops, [&](const Op& op) { return op.kind == &ops::attention && op.layer == source; });
  return attention(g, turned, own->in[1], own->in[2], heads_of(m, layer), attention_of(m, layer));
}

// x → self_attn.{q,k,v}_proj, the norms of their heads, attention, self_attn.o_proj
ValueId attention_of_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x) {
  if (m.shares_kv(layer))
    return linear(g, attend_to_earlier(g, m, layer, x),
                  {"self_attn.o_proj", m.hidden_size, m.o_bias});
  const int64_t width = m.head_width(layer), q_size = m.num_heads * width,
                kv_size = m.key_width(layer);
  std::array<ValueId, 3> made;
  if (m.keys_as_values && !m.windowed(layer)) {
    const auto [q, k] = linear(
        g, x,
        {{"self_attn.q_proj", q_size, m.qkv_bias}, {"self_attn.k_proj", kv_size, m.qkv_bias}});
    made = {q, k, k};
  } else {
    made = linear(g, x,
                  {{"self_attn.q_proj", q_size, m.qkv_bias},
                   {"self_attn.k_proj", kv_size, m.qkv_bias},
                   {"self_attn.v_proj", kv_size, m.qkv_bias}});
  }
  const auto [q, k, v] = made;
  const ValueId q_normed = head_norm(g, q, "self_attn.q_norm", width, m.rms_norm_eps),
                k_normed = head_norm(g, k, "self_attn.k_norm", width, m.rms_norm_eps),
                v_normed = unit_norm(g, v, width, m.rms_norm_eps);
  return linear(g, attend(g, m, layer, q_normed, k_normed, v_normed),
                {"self_attn.o_proj", m.hidden_size, m.o_bias});
}

// x, h → what the experts make of the stream beside the MLP's result x, and the sum of both. The
// router reads the stream through a norm of its own.
ValueId with_experts(Recorder& g, const ModelSpec& m, ValueId x, ValueId h) {
  const double root = 1 / std::sqrt(static_cast<double>(m.hidden_size));
  const ValueId seen = scale(g, vector_norm(g, h, "router.scale", m.rms_norm_eps), root);
  Routing routing = route(g, linear(g, seen, {"router.proj", m.num_experts}), route_rule(m));
  routing = scale_weights(g, routing, "router.per_expert_scale");
  const ValueId rows = dispatch(g, norm(g, m, h, "pre_feedforward_layernorm_2"), routing);
  const ValueId both =
      joined_expert_linear(g, rows, routing, {"experts.gate_up_proj", 2 * m.expert_size});
  const ValueId gated = halves_glu(g, both, m.expert_size, GateKind::gelu_tanh);
  const ValueId routed =
      combine(g, joined_expert_linear(g, gated, routing, {"experts.down_proj", m.hidden_size}),
              routing);
  const ValueId dense = norm(g, m, x, "post_feedforward_layernorm_1");
  return add(g, dense, norm(g, m, routed, "post_feedforward_layernorm_2"));
}

// Embeds tokens in a table that has a part for each layer, and adds what the first embedding says
// of them there.
void record_layer_inputs(Recorder& g, const ModelSpec& m, ValueId h) {
  if (m.layer_input_size == 0) return;
  const std::string embedding = outer_modules(m).embedding,
                    prefix = embedding.substr(0, embedding.rfind('.') + 1),
                    projection = prefix + "per_layer_model_projection",
                    norm_name = prefix + "per_layer_projection_norm";
  const int64_t width = m.layer_input_size, all = m.num_layers * width;
  const auto root = [](int64_t size) { return std::sqrt(static_cast<double>(size)); };
  const ValueId told =
      in_compute_type(g, embed(g, prefix + "embed_tokens_per_layer", m.layer_input_vocab, all,
                               root(width), frozen_embedding_row(m)));
  const ValueId seen = scale(g, linear(g, h, {projection.c_str(), all}), 1 / root(m.hidden_size));
  const ValueId both =
      scale(g, add(g, told, head_norm(g, seen, norm_name, width, m.rms_norm_eps)), 1 / root(2));
  g.layer_inputs = g.split(both, std::vector<int64_t>(static_cast<size_t>(m.num_layers), width));
}

// h → what the layer's own embedding adds to the stream
ValueId layer_input(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  const ValueId gate = linear(g, h, {"per_layer_input_gate", m.layer_input_size});
  const ValueId gated =
      glu(g, gate, g.layer_inputs[static_cast<size_t>(layer)], GateKind::gelu_tanh);
  return norm(g, m, linear(g, gated, {"per_layer_projection", m.hidden_size}),
              "post_per_layer_input_norm");
}

ValueId gemma4_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  ValueId x = attention_of_layer(g, m, layer, norm(g, m, h, "input_layernorm"));
  h = add(g, h, norm(g, m, x, "post_attention_layernorm"));
  const int64_t size = m.intermediate_size * (m.wide_shared_mlps && m.shares_kv(layer) ? 2 : 1);
  x = gated_mlp(g, m, norm(g, m, h, "pre_feedforward_layernorm"),
                {"mlp", size, false, GateKind::gelu_tanh});
  if (m.num_experts > 0) x = with_experts(g, m, x, h);
  h = add(g, h, norm(g, m, x, "post_feedforward_layernorm"));
  if (m.layer_input_size > 0) h = add(g, h, layer_input(g, m, layer, h));
  return scale_by(g, h, "layer_scalar");
}

}  // namespace

Family gemma4_family() {
  return {.name = "gemma4_text",
          .architecture = "Gemma4ForCausalLM",
          .max_position_embeddings = 131072,
          .num_kv_heads = 4,
          .activation = "gelu_pytorch_tanh",
          .rope_theta = 1e6,
          .window_rope_theta = 1e4,
          .partial_rotary = true,
          .proportional_rope = true,
          .tied = true,
          .spelling = {{"hidden_act", "hidden_activation"}},
          .turned_experts = true,
          .flags = {kAttentionBias},
          .read = read,
          .write = write,
          .layer = gemma4_layer,
          .before_layers = record_layer_inputs};
}

}  // namespace forge::gemma4
