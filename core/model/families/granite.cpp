// Granite (IBM, 2024): Llama's layer with a factor on the embeddings, on the scores, on what each
// half adds to the stream, and on the logits.
//
// Granite 4 (2025): the same with gate and up in one matrix, Mamba-2 in place of attention in most
// layers of some models, in some no positions, and in some GraniteMoE's experts beside that MLP.
//
// GraniteMoE: Granite's layer with experts in place of the MLP, all of a layer in two tensors, gate
// and up of an expert one above the other. The router has a softmax over the chosen experts.
// Modules of experts have the names of transformers 5, which PEFT's target_parameters name; files
// have others. GraniteMoeShared adds an expert for every token.
#include <algorithm>

#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "core/model/families/mamba.h"
#include "kernels/experts/expert_linear_op.h"
#include "kernels/experts/experts_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rows/rows_op.h"
#include "kernels/swiglu/glu_op.h"

namespace forge::granite {
namespace {

constexpr double kLeast = 1e-6, kMost = 1e6;

void read(Settings& settings, ModelSpec& spec) {
  spec.embedding_scale = settings.number("embedding_multiplier", kLeast, kMost, 1);
  spec.attention_scale = settings.number("attention_multiplier", kLeast, kMost, 1);
  spec.residual_scale = settings.number("residual_multiplier", kLeast, kMost, 1);
  spec.logit_scale = 1 / settings.number("logits_scaling", kLeast, kMost, 1);
}

void read_gguf(Settings& settings, ModelSpec& spec) {
  refuse_window(settings, spec);
  spec.embedding_scale = settings.number(".embedding_scale", kLeast, kMost, 1);
  spec.attention_scale = settings.number(".attention.scale", 0, kMost, 0);
  spec.residual_scale = settings.number(".residual_scale", kLeast, kMost, 1);
  spec.logit_scale = 1 / settings.number(".logit_scale", kLeast, kMost, 1);
}

void write(const ModelSpec& spec, Json& config) {
  config["embedding_multiplier"] = spec.embedding_scale;
  config["attention_multiplier"] = attention_of(spec, 0).scale;
  config["residual_multiplier"] = spec.residual_scale;
  config["logits_scaling"] = 1 / spec.logit_scale;
}

// ---- Granite 4

constexpr const char* kMambaKeys[] = {"mamba_n_heads", "mamba_n_groups", "mamba_d_state", "mamba_d_head", "mamba_d_conv", "mamba_expand",
                                      "mamba_chunk_size", "mamba_conv_bias", "mamba_proj_bias", "time_step_limit"};

// Reads the experts beside the MLP, if there are any, whose sizes are intermediate_size.
void read_own_experts(Settings& settings, ModelSpec& spec) {
  spec.num_experts = settings.integer("num_local_experts", 0, kMostExperts, 8);
  for (const char* idle : {"num_experts_per_tok", "output_router_logits", "router_aux_loss_coef"}) settings.find(idle);
  if (spec.num_experts == 0) return;
  read_per_token(settings, spec, 2);
  spec.expert_size = spec.intermediate_size;
  settings.must_be("output_router_logits", false, "no loss that balances experts");
}

void read_granite4(Settings& settings, ModelSpec& spec) {
  read(settings, spec);
  read_own_experts(settings, spec);
  read_state_layers(settings, spec);
  const std::string positions = settings.text("position_embedding_type", "none");
  if (positions != "rope") spec.rope = {.partial_rotary_factor = 0};
  if (positions != "rope" && positions != "nope" && settings.find("position_embedding_type"))
    settings.unsupported("position_embedding_type", "is \"" + positions + "\", forge computes rope, nope and null");
  spec.intermediate_size = settings.integer("shared_intermediate_size", 1, kMostIntermediate, 1024);
  if (spec.num_experts > 0) spec.shared_expert_size = spec.intermediate_size;
  if (spec.recurrent()) return read_mamba(settings, spec, {});
  for (const char* idle : kMambaKeys) settings.find(idle);  // change nothing without Mamba layers
}

void write_granite4(const ModelSpec& spec, Json& config) {
  write(spec, config);
  config["shared_intermediate_size"] = spec.intermediate_size;
  config["num_local_experts"] = spec.num_experts;
  config["num_experts_per_tok"] = spec.experts_per_token;
  if (spec.num_experts > 0) config["intermediate_size"] = spec.expert_size;
  config["layer_types"] = Json::array();
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) config["layer_types"].push_back(spec.delta(layer) ? "mamba" : "attention");
  if (spec.recurrent()) write_mamba(spec, config);
  config["position_embedding_type"] = spec.rotary_dim() > 0 ? Json("rope") : Json(nullptr);
  if (spec.rotary_dim() == 0) config.erase("rope_parameters"), config.erase("rope_theta");
}

ValueId shared_mlp(Recorder& g, const ModelSpec& m, ValueId x, int64_t size) {
  auto [gate, up] = g.split(linear(g, x, {"shared_mlp.input_linear", 2 * size}), {size, size});
  return linear(g, glu(g, gate, up, GateKind::silu), {"shared_mlp.output_linear", m.hidden_size});
}

// Records attention or a state space and `mlp`, both scaled before they are added.
ValueId scaled_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h,
                     ValueId (*mlp)(Recorder&, const ModelSpec&, ValueId)) {
  ValueId x = norm(g, m, h, "input_layernorm");
  x = m.delta(layer) ? mamba_mixer(g, m, x) : self_attention(g, m, layer, x);
  h = add(g, h, scale(g, x, m.residual_scale));
  x = mlp(g, m, norm(g, m, h, "post_attention_layernorm"));
  return add(g, h, scale(g, x, m.residual_scale));
}

ValueId merged_mlp(Recorder& g, const ModelSpec& m, ValueId x) {
  return shared_mlp(g, m, x, m.intermediate_size);
}

ValueId layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  return scaled_layer(g, m, layer, h, gated_mlp);
}

// ---- with experts

void read_moe(Settings& settings, ModelSpec& spec) {
  read(settings, spec);
  spec.num_experts = settings.integer("num_local_experts", 1, kMostExperts, 8);
  read_router(settings, spec, 2);
  spec.expert_size = spec.intermediate_size;
}

void read_shared(Settings& settings, ModelSpec& spec) {
  read_moe(settings, spec);
  spec.shared_expert_size = settings.integer("shared_intermediate_size", 0, kMostIntermediate, 0);
}

void read_moe_gguf(Settings& settings, ModelSpec& spec) {
  read_gguf(settings, spec);
  spec.normalise_experts = false;  // the softmax is over the chosen ones
  spec.shared_expert_size =
      settings.integer(".expert_shared_feed_forward_length", 0, kMostIntermediate, 0);
}

void write_moe(const ModelSpec& spec, Json& config) {
  write(spec, config);
  config["num_local_experts"] = spec.num_experts;
  write_router(spec, config);
}

void write_shared(const ModelSpec& spec, Json& config) {
  write_moe(spec, config);
  config["shared_intermediate_size"] = spec.shared_expert_size;
}

ValueId experts(Recorder& g, const ModelSpec& m, ValueId x) {
  RouteRule rule = route_rule(m);
  rule.scores = RouteRule::Scores::chosen_softmax;
  const LinearShape router{"block_sparse_moe.router.layer", m.num_experts, false,
                           LinearUse::router};
  const Routing routing = route(g, linear(g, x, router), rule);
  const ValueId halves = joined_expert_linear(g, dispatch(g, x, routing), routing,
                                              {.module = "block_sparse_moe.experts.gate_up_proj",
                                               .out = 2 * m.expert_size,
                                               .out_first = true});
  const ValueId gated = halves_glu(g, halves, m.expert_size, GateKind::silu);
  const JoinedExperts down{
      .module = "block_sparse_moe.experts.down_proj", .out = m.hidden_size, .out_first = true};
  return combine(g, joined_expert_linear(g, gated, routing, down), routing);
}

ValueId experts_and_shared(Recorder& g, const ModelSpec& m, ValueId x) {
  const ValueId routed = experts(g, m, x);
  if (m.shared_expert_size == 0) return routed;
  return add(g, routed, shared_mlp(g, m, x, m.shared_expert_size));
}

ValueId granite4_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  return scaled_layer(g, m, layer, h, m.num_experts > 0 ? experts_and_shared : merged_mlp);
}

ValueId moe_layer(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h) {
  return scaled_layer(g, m, layer, h, experts_and_shared);
}

// Endings of joined experts in files, and the names of their modules.
const std::vector<std::pair<std::string, std::string>> kStoredExperts{
    {"block_sparse_moe.input_linear.weight", "block_sparse_moe.experts.gate_up_proj"},
    {"block_sparse_moe.output_linear.weight", "block_sparse_moe.experts.down_proj"}};

}  // namespace

Family granite_family() {
  return {.name = "granite",
          .architecture = "GraniteForCausalLM",
          .gguf_architecture = "granite",
          .max_position_embeddings = 2048,
          .flags = {kAttentionBias, kMlpBias},
          .read = read,
          .write = write,
          .read_gguf = read_gguf,
          .layer = layer};
}

Family granitemoehybrid_family() {
  return {.name = "granitemoehybrid",
          .architecture = "GraniteMoeHybridForCausalLM",
          .max_position_embeddings = 2048,
          .stored_names = kStoredExperts,
          .flags = {{"attention_bias", false, kAttentionBiases}},
          .read = read_granite4,
          .write = write_granite4,
          .layer = granite4_layer};
}

Family granitemoe_family() {
  return {.name = "granitemoe",
          .architecture = "GraniteMoeForCausalLM",
          .gguf_architecture = "granitemoe",
          .mixture = true,
          .max_position_embeddings = 2048,
          .stored_names = kStoredExperts,
          .gguf_experts = {.own_width = false},
          .flags = {kAttentionBias},
          .read = read_moe,
          .write = write_moe,
          .read_gguf = read_moe_gguf,
          .layer = moe_layer};
}

Family granitemoeshared_family() {
  Family family = granitemoe_family();
  family.name = "granitemoeshared";
  family.architecture = "GraniteMoeSharedForCausalLM";
  family.read = read_shared;
  family.write = write_shared;
  return family;
}

}  // namespace forge::granite
