// Llama 4 (Meta, 2025): Llama's attention within chunks of the text, and in every fourth layer over
// all of it, without rotary positions and with queries that grow with their position. Every layer,
// or every second, has experts, of which a token goes through one and through one that all share.
//
// A router weighs what goes into an expert and not what comes out of it. Files join a layer's
// experts; those of axolotl ("Linearized") hold a linear layer for each matrix of each expert, so
// that it can be quantised: experts.gate_projs.N, experts.up_projs.N and experts.down_projs.N.
#include <algorithm>

#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "kernels/experts/expert_linear_op.h"
#include "kernels/experts/experts_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rms_norm/norm_op.h"
#include "kernels/rope/rope_op.h"
#include "kernels/rows/rows_op.h"
#include "kernels/swiglu/glu_op.h"

namespace forge::llama4 {
namespace {

constexpr int64_t kInterval = 4, kChunk = 8192;

// no_rope_layers has a 1 for each layer with rotary positions; an empty list states nothing.
std::vector<int64_t> read_turns(Settings& settings, const ModelSpec& spec) {
  const int64_t interval = settings.integer("no_rope_layer_interval", 1, 1 << 10, kInterval);
  std::vector<int64_t> turns = settings.ids("no_rope_layers");
  if (turns.empty())
    for (int64_t layer = 0; layer < spec.num_layers; ++layer) turns.push_back((layer + 1) % interval != 0);
  if (static_cast<int64_t>(turns.size()) < spec.num_layers) {
    settings.broken("no_rope_layers", "has fewer entries than num_hidden_layers");
    turns.resize(static_cast<size_t>(spec.num_layers), 1);
  }
  return turns;
}

// Layers see their chunk where they have rotary positions, unless layer_types says otherwise.
void read_chunks(Settings& settings, ModelSpec& spec) {
  if (settings.has("attention_chunk_size") && !settings.find("attention_chunk_size"))
    settings.broken("attention_chunk_size", "is null, expected the number of tokens that a layer attends to at once");
  spec.attention_chunk = settings.integer("attention_chunk_size", 1, kMostPositions, kChunk);
  const std::vector<int64_t> turns = read_turns(settings, spec);
  const Json* types = settings.find("layer_types");
  if (types && (!types->is_array() || static_cast<int64_t>(types->size()) != spec.num_layers))
    return settings.broken("layer_types", "is not a list of num_hidden_layers names");
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    const auto at = static_cast<size_t>(layer);
    if (turns[at] == 0) spec.no_rope_layers.push_back(layer);
    const Json type = types ? (*types)[at] : Json(turns[at] != 0 ? "chunked_attention" : "full_attention");
    if (type == "full_attention")
      spec.full_layers.push_back(layer);
    else if (type != "chunked_attention")
      return settings.unsupported("layer_types", "has " + dump_json(type) + ", forge computes full_attention and chunked_attention here");
  }
}

// The temperature is a flag in some files and a number in others; only that it is there counts.
void read_temperature(Settings& settings, ModelSpec& spec) {
  const Json* tuned = settings.find("attn_temperature_tuning");
  const double growth = settings.number("attn_scale", 0, 1e6, 0.1);
  const int64_t period = settings.integer("floor_scale", 1, kMostPositions, 8192);
  if (tuned && (*tuned == false || *tuned == 0)) return;
  spec.query_growth = growth, spec.query_growth_period = period;
  spec.growth_of_unturned = true;
}

// Returns the layers with an MLP: those that are not in moe_layers, or not every so many.
std::vector<int64_t> read_dense_layers(Settings& settings, const ModelSpec& spec) {
  const int64_t step = settings.integer("interleave_moe_layer_step", 1, 1 << 20, 1);
  const bool listed = settings.find("moe_layers") != nullptr;
  const std::vector<int64_t> experts = settings.ids("moe_layers");
  std::vector<int64_t> dense;
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    const bool has = listed ? std::ranges::count(experts, layer) > 0 : (layer + 1) % step == 0;
    if (!has) dense.push_back(layer);
  }
  return dense;
}

void read(Settings& settings, ModelSpec& spec) {
  if (!settings.has("head_dim")) spec.head_dim = 128;
  spec.rope.interleaved = true;
  spec.unit_norms = settings.flag("use_qk_norm", true);
  spec.joined_experts = true;
  spec.num_experts = settings.integer("num_local_experts", 1, kMostExperts, 16);
  spec.experts_per_token = settings.integer("num_experts_per_tok", 1, kMostExperts, 1);
  if (spec.experts_per_token != 1)
    settings.unsupported("num_experts_per_tok", "is " + std::to_string(spec.experts_per_token) + ", forge computes only 1 (as in every published Llama 4)");
  spec.expert_size = spec.shared_expert_size = spec.intermediate_size;
  spec.intermediate_size = settings.integer("intermediate_size_mlp", 1, kMostIntermediate, 16384);
  spec.dense_layers = read_dense_layers(settings, spec);
  read_chunks(settings, spec);
  read_temperature(settings, spec);
}

void write(const ModelSpec& spec, Json& config) {
  Json turns = Json::array(), types = Json::array(), experts = Json::array();
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    turns.push_back(spec.turns(layer) ? 1 : 0);
    types.push_back(spec.chunk(layer) > 0 ? "chunked_attention" : "full_attention");
    if (!spec.dense(layer)) experts.push_back(layer);
  }
  config["no_rope_layers"] = turns, config["layer_types"] = types, config["moe_layers"] = experts;
  config["attention_chunk_size"] = spec.attention_chunk;
  config["use_qk_norm"] = spec.unit_norms;
  config["attn_temperature_tuning"] = spec.query_growth > 0;
  if (spec.query_growth > 0) config["attn_scale"] = spec.query_growth, config["floor_scale"] = spec.query_growth_period;
  config["num_local_experts"] = spec.num_experts, config["num_experts_per_tok"] = spec.experts_per_token;
  config["intermediate_size"] = spec.expert_size, config["intermediate_size_mlp"] = spec.intermediate_size;
}

ValueId attention_of_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x) {
  auto [q, k, v] = project_qkv(g, m, x);
  if (m.turns(layer)) {
    auto [q_turned, k_turned] = rope(g, q, k, heads_of(m), {.interleaved = m.rope.interleaved});
    q = q_turned, k = k_turned;
    if (m.unit_norms) q = unit_norm(g, q, m.head_dim, m.rms_norm_eps), k = unit_norm(g, k, m.head_dim, m.rms_norm_eps);
  } else if (m.query_growth > 0) {
    q = grow_queries(g, q, heads_of(m));
  }
  return linear(g, attention(g, q, k, v, heads_of(m), attention_of(m, layer)), {"self_attn.o_proj", m.hidden_size, m.o_bias});
}

// Rows of experts → rows of experts, by two tensors that hold the matrices of all experts.
ValueId joined_experts(Recorder& g, const ModelSpec& m, ValueId rows, const Routing& routing) {
  const JoinedExperts in{.module = "feed_forward.experts.gate_up_proj", .out = 2 * m.expert_size, .use = LinearUse::turned_experts},
      out{.module = "feed_forward.experts.down_proj", .out = m.hidden_size, .use = LinearUse::turned_experts};
  const ValueId both = joined_expert_linear(g, rows, routing, in);
  return joined_expert_linear(g, halves_glu(g, both, m.expert_size, GateKind::silu), routing, out);
}

// Like joined_experts(), by a linear layer for each matrix.
ValueId single_experts(Recorder& g, const ModelSpec& m, ValueId rows, const Routing& routing) {
  const auto by = [&](ValueId in, const char* matrices, int64_t out) {
    return expert_linear(g, in, routing, std::string("feed_forward.experts.") + matrices + ".", "", out);
  };
  const ValueId gate = by(rows, "gate_projs", m.expert_size), up = by(rows, "up_projs", m.expert_size);
  return by(glu(g, gate, up, GateKind::silu), "down_projs", m.hidden_size);
}

// The router chooses a token's expert and weighs it by a sigmoid.
ValueId experts(Recorder& g, const ModelSpec& m, ValueId x) {
  RouteRule rule = route_rule(m);
  rule.scores = RouteRule::Scores::sigmoid;
  const Routing routing = route(g, linear(g, x, {"feed_forward.router", m.num_experts, false, LinearUse::bare_router}), rule);
  const ValueId rows = dispatch(g, weigh_rows(g, x, routing.weights), routing);
  return collect(g, m.joined_experts ? joined_experts(g, m, rows, routing) : single_experts(g, m, rows, routing), routing);
}

ValueId llama4_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  h = add(g, h, attention_of_layer(g, m, layer, norm(g, m, h, "input_layernorm")));
  const ValueId x = norm(g, m, h, "post_attention_layernorm");
  if (m.dense(layer)) return add(g, h, gated_mlp(g, m, x, {"feed_forward", m.intermediate_size}));
  const ValueId routed = experts(g, m, x);
  return add(g, h, add(g, routed, gated_mlp(g, m, x, {"feed_forward.shared_expert", m.shared_expert_size})));
}

}  // namespace

Family llama4_family() {
  return {.name = "llama4_text",
          .architecture = "Llama4ForCausalLM",
          .mixture = true,
          .max_position_embeddings = 131072,
          .num_kv_heads = 8,
          .norm_eps = 1e-5,
          .rope_theta = 500000,
          .apart_ending = ".feed_forward.experts.gate_projs.0.weight",
          .flags = {kAttentionBias},
          .read = read,
          .write = write,
          .layer = llama4_layer};
}

}  // namespace forge::llama4
