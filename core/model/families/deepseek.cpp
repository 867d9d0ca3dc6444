// DeepSeek-V2 and V3 (DeepSeek-AI, 2024): latent attention, where k and v of all heads are made
// from one narrow vector of a token and the rotated part of k is shared by all heads; experts
// beside shared ones, after a few layers with an MLP. DeepSeekMoE (2024), before them, has these
// experts in Llama's layer; its class is not in transformers.
//
// GLM-4.7-Flash (Z.ai, 2026) is V3 whose config.json names the MLP of each layer.
//
// Mistral Small 4 (2026) has latent attention whose queries grow with the logarithm of their
// position, and experts by a softmax, all of a layer in two tensors.
//
// DeepSeek V3.2 (2025) and GLM-5 (2026) are V3 with an indexer, which chooses for each token
// index_topk of those before it that attention sees. A text that is not longer is seen as a whole,
// so that the indexer changes nothing; a longer one is refused. The indexer's tensors stay as they
// are in the file.
#include <algorithm>
#include <cmath>

#include "core/lib/base/text.h"
#include "core/model/families/config_spec.h"
#include "core/model/families/routed_experts.h"
#include "kernels/latent/heads_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rms_norm/norm_op.h"
#include "kernels/rope/rope_op.h"
#include "kernels/rows/rows_op.h"

namespace forge::deepseek {
namespace {

constexpr double kLatentEps = 1e-6;  // epsilon of the latents' norms, whatever rms_norm_eps says

// YaRN sharpens the scores too (transformers: yarn_apply_mscale).
double score_scale(const ModelSpec& spec) {
  const double plain = 1 / std::sqrt(static_cast<double>(spec.head_dim));
  if (spec.rope.mscale_all_dim == 0 || spec.rope.factor <= 1) return plain;
  const double mscale = 0.1 * spec.rope.mscale_all_dim * std::log(spec.rope.factor) + 1;
  return plain * mscale * mscale;
}

// The widths that a class assumes where config.json states none.
struct LatentDefaults {
  int64_t q_latent = 1536, still = 128, value = 128, kv_latent = 512;
};

void read_latent_attention(Settings& settings, ModelSpec& spec,
                           const LatentDefaults& defaults = {}) {
  const bool whole = settings.has("q_lora_rank") && !settings.find("q_lora_rank");
  spec.q_latent = whole ? 0 : settings.integer("q_lora_rank", 1, kMostHidden, defaults.q_latent);
  spec.kv_latent = settings.integer("kv_lora_rank", 1, kMostHidden, defaults.kv_latent);
  spec.rope_head_dim = settings.integer("qk_rope_head_dim", 2, kMostHeadDim, 64);
  spec.value_head_dim = settings.integer("v_head_dim", 1, kMostHeadDim, defaults.value);
  spec.head_dim =
      spec.rope_head_dim + settings.integer("qk_nope_head_dim", 1, kMostHeadDim, defaults.still);
  if (spec.rope_head_dim % 2 != 0) settings.broken("qk_rope_head_dim", "is not an even number");
  if (spec.value_head_dim > spec.head_dim)
    settings.unsupported("v_head_dim", "is more than a head of q and k has, " + std::to_string(spec.head_dim));
  spec.num_kv_heads = spec.num_heads;
  spec.qkv_bias = spec.o_bias = settings.flag("attention_bias", false);
  spec.attention_scale = score_scale(spec);
}

void read_v2(Settings& settings, ModelSpec& spec) {
  read_latent_attention(settings, spec);
  read_routed_experts(settings, spec, {.dense = 0, .experts = 64, .shared = 2, .size = 1407});
  spec.experts_per_token = settings.integer("num_experts_per_tok", 1, spec.num_experts);
  const std::string method = settings.text("topk_method", "greedy");
  if (method == "group_limited_greedy")
    read_groups(settings, spec, 1, 1);
  else if (method != "greedy")
    settings.unsupported("topk_method", "is \"" + method + "\", forge computes greedy and group_limited_greedy");
  for (const char* key : {"n_group", "topk_group"}) settings.find(key);
  settings.must_be("mlp_bias", false, "no biases in MLPs");
  spec.rope.interleaved = true;
}

void read_v3(Settings& settings, ModelSpec& spec) {
  read_latent_attention(settings, spec);
  read_routed_experts(settings, spec,
                      {.dense = 3, .experts = 256, .shared = 1, .size = 2048, .scale = 2.5});
  read_routed_choice(settings, spec, {.groups = 8, .groups_per_token = 4, .per_token = 8});
  spec.rope.interleaved = settings.flag("rope_interleave", true);
}

// The authors' code can leave out experts or shared ones, and has a loss that balances experts,
// which is not computed here, as transformers computes none for V2 and V3.
void read_moe(Settings& settings, ModelSpec& spec) {
  read_routed_experts(settings, spec, {.shared = 0});
  spec.experts_per_token = settings.integer("num_experts_per_tok", 1, spec.num_experts);
  spec.normalise_experts = settings.flag("norm_topk_prob", false);
  settings.must_be("scoring_func", "softmax", "scores by softmax");
  settings.must_be("moe_layer_freq", 1, "experts in every layer after the first ones");
  settings.number("aux_loss_alpha", 0, 1e6, 0);
  settings.flag("seq_aux", true);
}

// llama.cpp does not normalise the weights of these experts.
void read_moe_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  spec.normalise_experts = false;
}

void write_moe(const ModelSpec& spec, Json& config) {
  write_routed_experts(spec, config);
  for (const char* key : {"routed_scaling_factor", "n_group", "topk_group"}) config.erase(key);
}

void write(const ModelSpec& spec, Json& config) {
  config["q_lora_rank"] = spec.q_latent > 0 ? Json(spec.q_latent) : Json(nullptr);
  config["kv_lora_rank"] = spec.kv_latent;
  config["qk_rope_head_dim"] = config["head_dim"] = spec.rope_head_dim;
  config["qk_nope_head_dim"] = spec.head_dim - spec.rope_head_dim;
  config["v_head_dim"] = spec.value_head_dim;
  config["attention_bias"] = spec.qkv_bias;
  write_routed_experts(spec, config);
}

// ---- with types of MLPs

// Sets the layers with an MLP to those that mlp_layer_types calls dense, if it is there.
void read_mlp_types(Settings& settings, ModelSpec& spec) {
  const Json* types = settings.find("mlp_layer_types");
  if (!types) return;
  if (!types->is_array() || static_cast<int64_t>(types->size()) != spec.num_layers)
    return settings.broken("mlp_layer_types", "is not a list of num_hidden_layers names");
  spec.dense_layers.clear();
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    const Json& type = (*types)[static_cast<size_t>(layer)];
    if (type == "dense")
      spec.dense_layers.push_back(layer);
    else if (type != "sparse")
      return settings.unsupported("mlp_layer_types",
                                  "has " + dump_json(type) + ", forge computes dense and sparse");
  }
}

void read_lite(Settings& settings, ModelSpec& spec) {
  read_latent_attention(settings, spec, {.q_latent = 768, .still = 192, .value = 256});
  read_routed_experts(settings, spec, {.dense = 1, .experts = 64, .shared = 1, .size = 1536, .scale = 1.8});
  read_mlp_types(settings, spec);
  read_routed_choice(settings, spec, {.groups = 1, .groups_per_token = 1, .per_token = 4});
  spec.rope.interleaved = settings.flag("rope_interleave", true);
}

// ---- with queries that grow

// Default of transformers if config.json says nothing of positions.
void set_silent_rope(ModelSpec& spec) {
  spec.rope.type = RopeType::yarn, spec.rope.factor = 128;
  spec.rope.mscale = spec.rope.mscale_all_dim = 1;
  spec.rope.original_max_position_embeddings = spec.query_growth_period = 8192;
  spec.query_growth = 0.1;
}

// The share of a head that is turned follows from its sizes; config.json states it again.
void read_turned_share(Settings& settings, ModelSpec& spec) {
  const double stated = spec.rope.partial_rotary_factor,
               share = static_cast<double>(spec.rope_head_dim) / static_cast<double>(spec.head_dim);
  if (stated != 1 && std::abs(stated - share) > 1e-6)
    settings.unsupported("rope_parameters.partial_rotary_factor",
                         "is " + format_number(stated) + ", and qk_rope_head_dim is " +
                             format_number(share) + " of a head");
  spec.rope.partial_rotary_factor = 1;
}

void read_mistral4(Settings& settings, ModelSpec& spec) {
  if (!settings.has("pad_token_id")) spec.pad_token_id = 11;
  if (!settings.find("rope_scaling") && !settings.find("rope_parameters")) {
    settings.must_be("rope_theta", 1e4, "the base of the class where there are no rope_parameters");
    set_silent_rope(spec);
  }
  read_latent_attention(settings, spec,
                        {.q_latent = 1024, .still = 64, .value = 128, .kv_latent = 256});
  read_turned_share(settings, spec);
  read_routed_experts(settings, spec, {.dense = 0, .experts = 128, .shared = 1, .size = 2048});
  read_routed_choice(settings, spec, {.groups = 1, .groups_per_token = 1, .per_token = 4});
  spec.joined_experts = true;
  spec.rope.interleaved = settings.flag("rope_interleave", true);
}

// ---- with an indexer

// Reads the indexer's sizes. The longest text becomes that of which it chooses all.
void read_indexer(Settings& settings, ModelSpec& spec, int64_t heads) {
  spec.index_heads = settings.integer("index_n_heads", 1, kMostHeads, heads);
  spec.index_head_dim = settings.integer("index_head_dim", 2, kMostHeadDim, 128);
  spec.index_topk = settings.integer("index_topk", 1, kMostPositions, 2048);
  spec.max_position_embeddings = std::min(spec.max_position_embeddings, spec.index_topk);
  if (spec.q_latent == 0)
    settings.unsupported("q_lora_rank",
                         "is null, and the indexer reads the vector that it is the width of");
  if (spec.index_head_dim < spec.rope_head_dim)
    settings.broken("index_head_dim",
                    "is less than the features that are turned, qk_rope_head_dim " +
                        std::to_string(spec.rope_head_dim));
  const Json* types = settings.find("layer_types");
  if (types && (!types->is_array() ||
                !std::all_of(types->begin(), types->end(),
                             [](const Json& type) { return type == "deepseek_sparse_attention"; })))
    settings.unsupported(
        "layer_types",
        "has other names than deepseek_sparse_attention, the only one of this family");
}

void read_v32(Settings& settings, ModelSpec& spec) {
  read_latent_attention(settings, spec);
  read_routed_experts(settings, spec,
                      {.dense = 3, .experts = 256, .shared = 1, .size = 2048, .scale = 2.5});
  read_mlp_types(settings, spec);
  read_routed_choice(settings, spec, {.groups = 8, .groups_per_token = 4, .per_token = 8});
  read_indexer(settings, spec, 64);
  spec.rope.interleaved = true;
}

// Returns a letter for each layer, F for one with an indexer and S for one that shares another's,
// as transformers derives them from the settings; empty for a list that is none.
std::string index_pattern(Settings& settings, const ModelSpec& spec) {
  const int64_t every = settings.integer("index_topk_freq", -kMostLayers, kMostLayers, 1),
                offset = settings.integer("index_skip_topk_offset", -kMostLayers, kMostLayers, 2);
  const Json* stated = settings.find("index_topk_pattern");
  if (const Json* types = settings.find("indexer_types")) stated = types;
  if (stated && stated->is_string()) return stated->get<std::string>();
  std::string pattern;
  if (stated && stated->is_array())
    for (const Json& type : *stated) pattern += type == "full" ? 'F' : type == "shared" ? 'S' : '?';
  for (int64_t layer = 0; !stated && layer < spec.num_layers; ++layer)
    pattern +=
        std::max<int64_t>(layer - offset + 1, 0) % std::max<int64_t>(every, 1) == 0 ? 'F' : 'S';
  return pattern;
}

void read_glm(Settings& settings, ModelSpec& spec) {
  read_latent_attention(settings, spec, {.q_latent = 2048, .still = 192, .value = 256});
  read_routed_experts(settings, spec,
                      {.dense = 3, .experts = 256, .shared = 1, .size = 2048, .scale = 2.5});
  read_mlp_types(settings, spec);
  read_routed_choice(settings, spec, {.groups = 1, .groups_per_token = 1, .per_token = 8});
  read_indexer(settings, spec, 32);
  spec.rope.interleaved = true;
  const std::string pattern = index_pattern(settings, spec);
  if (static_cast<int64_t>(pattern.size()) != spec.num_layers ||
      pattern.find_first_not_of("FS") != pattern.npos || pattern.front() != 'F')
    return settings.broken("indexer_types",
                           "does not say of each of num_hidden_layers layers whether it is full or "
                           "shared, beginning with full");
  for (int64_t layer = 0; layer < spec.num_layers; ++layer)
    if (pattern[static_cast<size_t>(layer)] == 'S') spec.shared_index_layers.push_back(layer);
}

void write_v2(const ModelSpec& spec, Json& config) {
  write(spec, config);
  config["topk_method"] = spec.expert_groups > 1 ? "group_limited_greedy" : "greedy";
}

void write_v3(const ModelSpec& spec, Json& config) {
  write(spec, config);
  config["rope_interleave"] = spec.rope.interleaved;
}

void write_mlp_types(const ModelSpec& spec, Json& config) {
  Json types = Json::array();
  for (int64_t layer = 0; layer < spec.num_layers; ++layer)
    types.push_back(spec.dense(layer) ? "dense" : "sparse");
  config["mlp_layer_types"] = types;
}

void write_lite(const ModelSpec& spec, Json& config) {
  write_v3(spec, config);
  write_mlp_types(spec, config);
}

void write_v32(const ModelSpec& spec, Json& config) {
  write(spec, config);
  config["index_n_heads"] = spec.index_heads;
  config["index_head_dim"] = spec.index_head_dim;
  config["index_topk"] = spec.index_topk;
  write_mlp_types(spec, config);
}

void write_glm(const ModelSpec& spec, Json& config) {
  write_v32(spec, config);
  Json types = Json::array();
  for (int64_t layer = 0; layer < spec.num_layers; ++layer)
    types.push_back(
        std::count(spec.shared_index_layers.begin(), spec.shared_index_layers.end(), layer) > 0
            ? "shared"
            : "full");
  config["indexer_types"] = types;
}

void write_mistral4(const ModelSpec& spec, Json& config) {
  write_v3(spec, config);
  Json& rope = config["rope_parameters"];
  rope["llama_4_scaling_beta"] = spec.query_growth;
  if (spec.query_growth > 0) rope["original_max_position_embeddings"] = spec.query_growth_period;
  config.erase("rope_theta");
}

ValueId latent_attention(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x) {
  const int64_t still = m.head_dim - m.rope_head_dim, width = m.num_heads * m.head_dim;
  const LatentSizes heads{m.num_heads, m.head_dim, m.rope_head_dim, m.value_head_dim};
  ValueId q = x;
  if (m.q_latent > 0) q = norm(g, linear(g, x, {"self_attn.q_a_proj", m.q_latent, m.qkv_bias}), "self_attn.q_a_layernorm", kLatentEps);
  q = linear(g, q, {m.q_latent > 0 ? "self_attn.q_b_proj" : "self_attn.q_proj", width});
  auto [latent, key] = g.split(linear(g, x, {"self_attn.kv_a_proj_with_mqa", m.kv_latent + m.rope_head_dim, m.qkv_bias}),
                               {m.kv_latent, m.rope_head_dim});
  const ValueId kv = linear(g, norm(g, latent, "self_attn.kv_a_layernorm", kLatentEps),
                              {"self_attn.kv_b_proj", m.num_heads * (still + m.value_head_dim)});
  auto [q_heads, k_heads, v_heads] = latent_heads(g, q, kv, key, heads);
  if (m.query_growth > 0) q_heads = grow_queries(g, q_heads, heads_of(m));
  const ValueId mixed = attend(g, m, layer, q_heads, k_heads, v_heads);
  return linear(g, trim_heads(g, mixed, heads), {"self_attn.o_proj", m.hidden_size, m.o_bias});
}

ValueId moe_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  h = add(g, h, self_attention(g, m, layer, norm(g, m, h, "input_layernorm")));
  const ValueId x = norm(g, m, h, "post_attention_layernorm");
  return add(g, h, routed_mlp(g, m, layer, x, kRoutedNames, route_rule(m)));
}

ValueId layer_with(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h, const ExpertNames& names, const RouteRule& rule) {
  h = add(g, h, latent_attention(g, m, layer, norm(g, m, h, "input_layernorm")));
  const ValueId x = norm(g, m, h, "post_attention_layernorm");
  return add(g, h, routed_mlp(g, m, layer, x, names, rule));
}

ValueId v2_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  return layer_with(g, m, layer, h, kRoutedNames, route_rule(m));
}

ValueId v3_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  return layer_with(g, m, layer, h, kCorrectedNames, sigmoid_rule(m));
}

ValueId joined_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  h = add(g, h, latent_attention(g, m, layer, norm(g, m, h, "input_layernorm")));
  const ValueId x = norm(g, m, h, "post_attention_layernorm");
  if (m.dense(layer)) return add(g, h, gated_mlp(g, m, x));
  RouteRule rule = route_rule(m);
  rule.group_best = 2;
  const ValueId routed = joined_sparse_mlp(g, m, x, "mlp.gate", "mlp.experts.", rule);
  const ValueId shared = gated_mlp(g, m, x, {"mlp.shared_experts", m.shared_expert_size, m.mlp_bias});
  return add(g, h, add(g, routed, shared));
}

// Adds a module that the checkpoint has and no op reads.
void hold(Recorder& g, const char* name, ModuleKind kind, int64_t in, int64_t out) {
  ModuleUse& use = g.use_at(g.module_at(name, kind, in, out, /*bias=*/kind == ModuleKind::norm));
  use.use = LinearUse::bare_router;  // no layer to adapters and quantization
  use.constant = true, use.trained = use.bias_trained = false;
}

ValueId indexed_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  if (std::count(m.shared_index_layers.begin(), m.shared_index_layers.end(), layer) == 0) {
    hold(g, "self_attn.indexer.wq_b", ModuleKind::linear, m.q_latent,
         m.index_heads * m.index_head_dim);
    hold(g, "self_attn.indexer.wk", ModuleKind::linear, m.hidden_size, m.index_head_dim);
    hold(g, "self_attn.indexer.k_norm", ModuleKind::norm, m.index_head_dim, m.index_head_dim);
    hold(g, "self_attn.indexer.weights_proj", ModuleKind::linear, m.hidden_size, m.index_heads);
  }
  return v3_layer(g, m, layer, h);
}

}  // namespace

Family deepseek_family() {
  return {.name = "deepseek",
          .architecture = "DeepseekForCausalLM",
          .gguf_architecture = "deepseek",
          .mixture = true,
          .max_position_embeddings = 2048,
          .gguf_experts = {.counted = true, .leading = true},
          .flags = {kAttentionBias},
          .read = read_moe,
          .write = write_moe,
          .read_gguf = read_moe_gguf,
          .layer = moe_layer};
}

Family deepseek_v2_family() {
  return {.name = "deepseek_v2",
          .architecture = "DeepseekV2ForCausalLM",
          .max_position_embeddings = 2048,
          .read = read_v2,
          .write = write_v2,
          .layer = v2_layer};
}

Family deepseek_v3_family() {
  Family family = deepseek_v2_family();
  family.name = "deepseek_v3";
  family.architecture = "DeepseekV3ForCausalLM";
  family.max_position_embeddings = 4096;
  family.further_layers = true;
  family.read = read_v3;
  family.write = write_v3;
  family.layer = v3_layer;
  return family;
}

Family glm4_moe_lite_family() {
  Family family = deepseek_v3_family();
  family.name = "glm4_moe_lite";
  family.architecture = "Glm4MoeLiteForCausalLM";
  family.max_position_embeddings = 202752;
  family.norm_eps = 1e-5;
  family.read = read_lite;
  family.write = write_lite;
  return family;
}

Family mistral4_family() {
  Family family = deepseek_v2_family();
  family.name = "mistral4";
  family.architecture = "Mistral4ForCausalLM";
  family.max_position_embeddings = 1048576;
  family.partial_rotary = family.query_growth = family.turned_experts = true;
  family.read = read_mistral4;
  family.write = write_mistral4;
  family.layer = joined_layer;
  return family;
}

Family deepseek_v32_family() {
  Family family = deepseek_v3_family();
  family.name = "deepseek_v32";
  family.architecture = "DeepseekV32ForCausalLM";
  family.max_position_embeddings = 163840;
  family.read = read_v32;
  family.write = write_v32;
  family.layer = indexed_layer;
  return family;
}

Family glm_moe_dsa_family() {
  Family family = deepseek_v32_family();
  family.name = "glm_moe_dsa";
  family.architecture = "GlmMoeDsaForCausalLM";
  family.max_position_embeddings = 202752;
  family.norm_eps = 1e-5;
  family.read = read_glm;
  family.write = write_glm;
  return family;
}

}  // namespace forge::deepseek
