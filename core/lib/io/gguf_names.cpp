#include "core/lib/io/gguf_names.h"

#include <algorithm>
#include <charconv>
#include <span>

#include "core/lib/base/text.h"

namespace forge {
namespace {

using Layer = GgufArchitecture::Layer;
using Part = GgufPart;
constexpr GgufArchitecture kArchitectures[] = {
    {.name = "llama", .permutes_heads = true, .layer = Layer::llama, .biases = Part::optional, .rope_freqs = true, .rope_factors = true},  // Llama, Mistral, Mixtral, SmolLM2, TinyLlama
    {.name = "mistral3", .permutes_heads = true, .layer = Layer::llama, .biases = Part::optional},  // Ministral 3
    {.name = "qwen2", .square_attention = true},
    {.name = "qwen2vl", .square_attention = true},
    {.name = "qwen3"},
    {.name = "qwen3vl"},
    {.name = "phi3", .layer = Layer::phi3, .square_attention = true, .rope_factors = true},
    {.name = "gemma", .norms_plus_one = true, .head = Part::unknown},
    {.name = "gemma2", .norms_plus_one = true, .layer = Layer::sandwich, .head = Part::unknown},
    {.name = "gemma3", .norms_plus_one = true, .layer = Layer::sandwich},
    {.name = "smollm3", .permutes_heads = true},
    {.name = "granite", .permutes_heads = true, .biases = Part::optional, .rope_freqs = true, .rope_factors = true},
    {.name = "olmo2", .layer = Layer::olmo2, .head = Part::required, .square_attention = true},
    {.name = "chatglm", .layer = Layer::glm, .square_attention = true},
    {.name = "glm4", .layer = Layer::glm4},
    {.name = "command-r", .head = Part::unknown, .square_attention = true},
    {.name = "cohere2", .head = Part::unknown, .square_attention = true},
    {.name = "starcoder2", .layer = Layer::starcoder2, .biases = Part::required, .square_attention = true},
    {.name = "stablelm", .head = Part::required},
    {.name = "gptneox", .layer = Layer::gpt_neox, .biases = Part::required, .head = Part::required},
    {.name = "falcon", .layer = Layer::falcon},
    {.name = "gpt2", .layer = Layer::gpt2, .biases = Part::required},
    {.name = "qwen2moe", .layer = Layer::experts, .square_attention = true},
    {.name = "qwen3moe", .layer = Layer::experts},
    {.name = "qwen3vlmoe", .layer = Layer::experts},
    {.name = "phi2", .layer = Layer::phi2, .biases = Part::required, .head = Part::required, .square_attention = true},
    {.name = "seed_oss", .layer = Layer::seed_oss},
    {.name = "exaone4", .layer = Layer::olmo2, .rope_freqs = true},
    {.name = "ernie4_5"},
    {.name = "hunyuan-dense", .layer = Layer::hunyuan},
    {.name = "bloom", .layer = Layer::bloom, .biases = Part::required},
    {.name = "mpt", .layer = Layer::mpt},
    {.name = "arcee", .permutes_heads = true, .rope_freqs = true},
    {.name = "olmo", .permutes_heads = true, .square_attention = true},
    {.name = "qwen3next", .norms_plus_one = true, .layer = Layer::qwen3_next},
    {.name = "qwen35", .norms_plus_one = true, .layer = Layer::qwen35, .tiled_values = true},
    {.name = "qwen35moe", .norms_plus_one = true, .layer = Layer::qwen35, .tiled_values = true},
    {.name = "nemotron", .norms_plus_one = true, .biases = Part::optional, .head = Part::required, .square_attention = true},
    {.name = "glm4moe", .layer = Layer::glm4_moe},
    {.name = "olmoe", .layer = Layer::experts, .head = Part::required, .square_attention = true, .equal_heads = true},
    {.name = "ernie4_5-moe", .layer = Layer::ernie_moe},
    {.name = "minimax-m2", .layer = Layer::minimax, .head = Part::required},
    {.name = "dots1", .layer = Layer::routed, .head = Part::required, .equal_heads = true},
    {.name = "hunyuan-moe", .layer = Layer::hunyuan_moe},
    {.name = "granitemoe", .permutes_heads = true, .layer = Layer::granite_moe, .rope_freqs = true, .rope_factors = true},
    {.name = "deepseek", .permutes_heads = true, .layer = Layer::routed, .square_attention = true},
};

struct Name {
  std::string_view gguf, hugging_face;
  GgufRole role = GgufRole::weight;
};

constexpr Name kWhole[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm", GgufRole::norm},
    {"output", "lm_head"},
    {"rope_freqs", "", GgufRole::rope_factors},
    {"rope_factors_short", "", GgufRole::rope_factors},
    {"rope_factors_long", "", GgufRole::rope_factors},
};

constexpr Name kWholeGptNeox[] = {
    {"token_embd", "gpt_neox.embed_in"},
    {"output_norm", "gpt_neox.final_layer_norm", GgufRole::norm},
    {"output", "lm_head"},
};
constexpr Name kWholeFalcon[] = {
    {"token_embd", "transformer.word_embeddings"},
    {"output_norm", "transformer.ln_f", GgufRole::norm},
    {"output", "lm_head"},
};

constexpr Name kWholeGpt2[] = {
    {"token_embd", "transformer.wte"},
    {"position_embd", "transformer.wpe"},
    {"output_norm", "transformer.ln_f", GgufRole::norm},
    {"output", "lm_head"},
};

constexpr Name kLayer[] = {
    {"attn_q", "self_attn.q_proj", GgufRole::query},
    {"attn_k", "self_attn.k_proj", GgufRole::key},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm", GgufRole::norm},
    {"attn_k_norm", "self_attn.k_norm", GgufRole::norm},
    {"attn_norm", "input_layernorm", GgufRole::norm},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"attn_rot_embd", "", GgufRole::ignored},  // a buffer of old checkpoints; llama.cpp skips it too
};
constexpr Name kPlain[] = {
    {"ffn_norm", "post_attention_layernorm", GgufRole::norm},
    {"ffn_up", "mlp.up_proj"},
};
constexpr Name kLlama[] = {
    {"ffn_norm", "post_attention_layernorm", GgufRole::norm},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_gate_inp", "block_sparse_moe.gate"},
    {"ffn_gate_exps", "block_sparse_moe.experts.*.w1", GgufRole::experts},
    {"ffn_up_exps", "block_sparse_moe.experts.*.w3", GgufRole::experts},
    {"ffn_down_exps", "block_sparse_moe.experts.*.w2", GgufRole::experts},
};
constexpr Name kExperts[] = {
    {"ffn_norm", "post_attention_layernorm", GgufRole::norm},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.*.gate_proj", GgufRole::experts},
    {"ffn_up_exps", "mlp.experts.*.up_proj", GgufRole::experts},
    {"ffn_down_exps", "mlp.experts.*.down_proj", GgufRole::experts},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate", GgufRole::row},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
};
constexpr Name kPhi3[] = {
    {"ffn_norm", "post_attention_layernorm", GgufRole::norm},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"ffn_up", "mlp.gate_up_proj"},
};
constexpr Name kSandwich[] = {
    {"post_attention_norm", "post_attention_layernorm", GgufRole::norm},
    {"ffn_norm", "pre_feedforward_layernorm", GgufRole::norm},
    {"post_ffw_norm", "post_feedforward_layernorm", GgufRole::norm},
    {"ffn_up", "mlp.up_proj"},
};
constexpr Name kOlmo2[] = {
    {"post_attention_norm", "post_attention_layernorm", GgufRole::norm},
    {"post_ffw_norm", "post_feedforward_layernorm", GgufRole::norm},
    {"ffn_up", "mlp.up_proj"},
};
constexpr Name kGlm[] = {
    {"ffn_norm", "post_attention_layernorm", GgufRole::norm},
    {"ffn_up", "mlp.gate_up_proj"},
};
constexpr Name kGlm4[] = {
    {"post_attention_norm", "post_self_attn_layernorm", GgufRole::norm},
    {"ffn_norm", "post_attention_layernorm", GgufRole::norm},
    {"post_ffw_norm", "post_mlp_layernorm", GgufRole::norm},
    {"ffn_up", "mlp.gate_up_proj"},
};
constexpr Name kStarcoder2[] = {
    {"ffn_norm", "post_attention_layernorm", GgufRole::norm},
    {"ffn_up", "mlp.c_fc"},
    {"ffn_down", "mlp.c_proj"},
};
constexpr Name kGptNeox[] = {
    {"attn_qkv", "attention.query_key_value", GgufRole::grouped_qkv},
    {"attn_output", "attention.dense"},
    {"ffn_norm", "post_attention_layernorm", GgufRole::norm},
    {"ffn_up", "mlp.dense_h_to_4h"},
    {"ffn_down", "mlp.dense_4h_to_h"},
};
constexpr Name kFalcon[] = {
    {"attn_qkv", "self_attention.query_key_value", GgufRole::grouped_qkv},
    {"attn_output", "self_attention.dense"},
    {"ffn_up", "mlp.dense_h_to_4h"},
    {"ffn_down", "mlp.dense_4h_to_h"},
};

constexpr Name kGpt2[] = {
    {"attn_norm", "ln_1", GgufRole::norm},
    {"attn_qkv", "attn.c_attn"},
    {"attn_output", "attn.c_proj"},
    {"ffn_norm", "ln_2", GgufRole::norm},
    {"ffn_up", "mlp.c_fc"},
    {"ffn_down", "mlp.c_proj"},
};

constexpr Name kWholePhi2[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.final_layernorm", GgufRole::norm},
    {"output", "lm_head"},
};
constexpr Name kPhi2[] = {
    {"attn_output", "self_attn.dense"},
    {"ffn_up", "mlp.fc1"},
    {"ffn_down", "mlp.fc2"},
};
constexpr Name kSeedOss[] = {
    {"post_attention_norm", "post_attention_layernorm", GgufRole::norm},
    {"ffn_up", "mlp.up_proj"},
};
constexpr Name kWholeBloom[] = {
    {"token_embd", "transformer.word_embeddings"},
    {"token_embd_norm", "transformer.word_embeddings_layernorm", GgufRole::norm},
    {"output_norm", "transformer.ln_f", GgufRole::norm},
    {"output", "lm_head"},
};
constexpr Name kBloom[] = {
    {"attn_qkv", "self_attention.query_key_value", GgufRole::grouped_qkv},
    {"attn_output", "self_attention.dense"},
    {"ffn_norm", "post_attention_layernorm", GgufRole::norm},
    {"ffn_up", "mlp.dense_h_to_4h"},
    {"ffn_down", "mlp.dense_4h_to_h"},
};
constexpr Name kWholeMpt[] = {
    {"token_embd", "transformer.wte"},
    {"output_norm", "transformer.norm_f", GgufRole::norm},
    {"output", "lm_head"},
};
constexpr Name kMpt[] = {
    {"attn_norm", "norm_1", GgufRole::norm}, {"attn_qkv", "attn.Wqkv"},   {"attn_output", "attn.out_proj"},
    {"ffn_norm", "norm_2", GgufRole::norm},  {"ffn_up", "ffn.up_proj"}, {"ffn_down", "ffn.down_proj"},
};
constexpr Name kHunyuan[] = {
    {"attn_q_norm", "self_attn.query_layernorm", GgufRole::norm},
    {"attn_k_norm", "self_attn.key_layernorm", GgufRole::norm},
    {"ffn_norm", "post_attention_layernorm", GgufRole::norm},
    {"ffn_up", "mlp.up_proj"},
};
// These layers have experts beside shared ones, or an MLP. exp_probs_b is the correction of the
// scores that choose experts, whose name in Hugging Face's files ends in _bias.
constexpr Name kRouted[] = {
    {"ffn_norm", "post_attention_layernorm", GgufRole::norm},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"exp_probs_b", "mlp.gate.e_score_correction"},
    {"ffn_gate_exps", "mlp.experts.*.gate_proj", GgufRole::experts},
    {"ffn_up_exps", "mlp.experts.*.up_proj", GgufRole::experts},
    {"ffn_down_exps", "mlp.experts.*.down_proj", GgufRole::experts},
    {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
    {"ffn_down_shexp", "mlp.shared_experts.down_proj"},
};
constexpr Name kGlm4Moe[] = {
    {"post_attention_norm", "post_attention_layernorm", GgufRole::norm},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"exp_probs_b", "mlp.gate.e_score_correction"},
    {"ffn_gate_exps", "mlp.experts.*.gate_proj", GgufRole::experts},
    {"ffn_up_exps", "mlp.experts.*.up_proj", GgufRole::experts},
    {"ffn_down_exps", "mlp.experts.*.down_proj", GgufRole::experts},
    {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
    {"ffn_down_shexp", "mlp.shared_experts.down_proj"},
    // Layers that predict further tokens have these too; transformers leaves them out.
    {"nextn.eh_proj", "", GgufRole::ignored},
    {"nextn.embed_tokens", "", GgufRole::ignored},
    {"nextn.enorm", "", GgufRole::ignored},
    {"nextn.hnorm", "", GgufRole::ignored},
    {"nextn.shared_head_head", "", GgufRole::ignored},
    {"nextn.shared_head_norm", "", GgufRole::ignored},
};
constexpr Name kMinimax[] = {
    {"ffn_norm", "post_attention_layernorm", GgufRole::norm},
    {"ffn_gate_inp", "block_sparse_moe.gate"},
    {"exp_probs_b", "block_sparse_moe.e_score_correction"},
    {"ffn_gate_exps", "block_sparse_moe.experts.*.w1", GgufRole::experts},
    {"ffn_up_exps", "block_sparse_moe.experts.*.w3", GgufRole::experts},
    {"ffn_down_exps", "block_sparse_moe.experts.*.w2", GgufRole::experts},
};
constexpr Name kErnieMoe[] = {
    {"ffn_norm", "post_attention_layernorm", GgufRole::norm},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"exp_probs_b", "mlp.moe_statics.e_score_correction", GgufRole::row},
    {"ffn_gate_exps", "mlp.experts.*.gate_proj", GgufRole::experts},
    {"ffn_up_exps", "mlp.experts.*.up_proj", GgufRole::experts},
    {"ffn_down_exps", "mlp.experts.*.down_proj", GgufRole::experts},
    {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
    {"ffn_down_shexp", "mlp.shared_experts.down_proj"},
};
constexpr Name kHunyuanMoe[] = {
    {"attn_q_norm", "self_attn.query_layernorm", GgufRole::norm},
    {"attn_k_norm", "self_attn.key_layernorm", GgufRole::norm},
    {"ffn_norm", "post_attention_layernorm", GgufRole::norm},
    {"ffn_gate_inp", "mlp.gate.wg"},
    {"ffn_gate_exps", "mlp.experts.*.gate_proj", GgufRole::experts},
    {"ffn_up_exps", "mlp.experts.*.up_proj", GgufRole::experts},
    {"ffn_down_exps", "mlp.experts.*.down_proj", GgufRole::experts},
    {"ffn_gate_shexp", "mlp.shared_mlp.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_mlp.up_proj"},
    {"ffn_down_shexp", "mlp.shared_mlp.down_proj"},
};

constexpr Name kGraniteMoe[] = {
    {"ffn_norm", "post_attention_layernorm", GgufRole::norm},
    {"ffn_gate_inp", "block_sparse_moe.router.layer"},
    {"ffn_gate_exps", "block_sparse_moe.experts.gate_up_proj", GgufRole::gate_half},
    {"ffn_up_exps", "block_sparse_moe.experts.gate_up_proj", GgufRole::up_half},
    {"ffn_down_exps", "block_sparse_moe.experts.down_proj"},
    {"ffn_gate_shexp", "shared_mlp.input_linear", GgufRole::gate_half},
    {"ffn_up_shexp", "shared_mlp.input_linear", GgufRole::up_half},
    {"ffn_down_shexp", "shared_mlp.output_linear"},
};

// A layer with a delta rule has neither attention's names nor others' roles for them. Names without
// a suffix are whole.
constexpr Name kQwen3Next[] = {
    {"post_attention_norm", "post_attention_layernorm", GgufRole::norm},
    {"attn_qkv", "linear_attn.in_proj_qkvz", GgufRole::delta_joined},
    {"attn_gate", "linear_attn.in_proj_qkvz", GgufRole::delta_gate},
    {"ssm_ba", "linear_attn.in_proj_ba"},
    {"ssm_conv1d", "linear_attn.conv1d", GgufRole::delta_filter},
    {"ssm_norm", "linear_attn.norm"},
    {"ssm_out", "linear_attn.out_proj", GgufRole::delta_out},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.*.gate_proj", GgufRole::experts},
    {"ffn_up_exps", "mlp.experts.*.up_proj", GgufRole::experts},
    {"ffn_down_exps", "mlp.experts.*.down_proj", GgufRole::experts},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate", GgufRole::row},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
};
constexpr Name kQwen35[] = {
    {"post_attention_norm", "post_attention_layernorm", GgufRole::norm},
    {"attn_qkv", "linear_attn.in_proj_qkv", GgufRole::delta_qkv},
    {"attn_gate", "linear_attn.in_proj_z", GgufRole::delta_values},
    {"ssm_beta", "linear_attn.in_proj_b", GgufRole::delta_heads},
    {"ssm_alpha", "linear_attn.in_proj_a", GgufRole::delta_heads},
    {"ssm_conv1d", "linear_attn.conv1d", GgufRole::delta_filter},
    {"ssm_norm", "linear_attn.norm"},
    {"ssm_out", "linear_attn.out_proj", GgufRole::delta_out},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.*.gate_proj", GgufRole::experts},
    {"ffn_up_exps", "mlp.experts.*.up_proj", GgufRole::experts},
    {"ffn_down_exps", "mlp.experts.*.down_proj", GgufRole::experts},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate", GgufRole::row},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
};
constexpr Name kDeltaVectors[] = {
    {"ssm_a", "linear_attn.A_log", GgufRole::delta_rates},
    {"ssm_dt.bias", "linear_attn.dt_bias", GgufRole::delta_heads},
};

const Name* find(std::span<const Name> names, std::string_view gguf) {
  for (const Name& name : names)
    if (name.gguf == gguf) return &name;
  return nullptr;
}

// The names of a kind of layer, those outside of its layers, and what Hugging Face's begin with.
struct Names {
  std::span<const Name> own, whole = kWhole;
  std::string_view prefix = "model.layers.";
};

constexpr Names kNames[] = {  // in the order of Layer
    {kPlain}, {kLlama}, {kExperts}, {kPhi3}, {kSandwich}, {kOlmo2}, {kGlm}, {kGlm4}, {kStarcoder2},
    {kGptNeox, kWholeGptNeox, "gpt_neox.layers."},
    {kFalcon, kWholeFalcon, "transformer.h."},
    {kGpt2, kWholeGpt2, "transformer.h."},
    {kPhi2, kWholePhi2}, {kSeedOss}, {kHunyuan},
    {kBloom, kWholeBloom, "transformer.h."}, {kMpt, kWholeMpt, "transformer.blocks."},
    {kRouted}, {kGlm4Moe}, {kMinimax}, {kErnieMoe}, {kHunyuanMoe}, {kGraniteMoe},
    {kQwen3Next}, {kQwen35},
};

const Names& names_of(const GgufArchitecture& architecture) {
  return kNames[static_cast<size_t>(architecture.layer)];
}

// Returns the vectors of a layer whose names have no suffix in Hugging Face's files.
std::span<const Name> vectors_of(const GgufArchitecture& architecture) {
  const bool delta = architecture.layer == Layer::qwen3_next || architecture.layer == Layer::qwen35;
  return delta ? std::span<const Name>(kDeltaVectors) : std::span<const Name>();
}

const Name* find_in_layer(const GgufArchitecture& architecture, std::string_view gguf) {
  if (const Name* name = find(names_of(architecture).own, gguf)) return name;
  return find(kLayer, gguf);
}

// True for a tensor that holds all experts of a layer.
bool holds_experts(std::string_view stem) {
  return ends_with(stem, ".experts.gate_up_proj") || ends_with(stem, ".experts.down_proj");
}
// A name's stem and its ending, ".weight" or ".bias". A correction of scores is the bias of
// nothing: its name ends in "_bias". The name of one tensor that holds all experts has no ending.
struct Ended {
  std::string stem, ending;
};
Ended ended(std::string_view hugging_face_name) {
  constexpr std::string_view kCorrection = "e_score_correction_bias", kBias = "_bias";
  if (holds_experts(hugging_face_name)) return {std::string(hugging_face_name), ".weight"};
  if (ends_with(hugging_face_name, kCorrection))
    return {std::string(hugging_face_name.substr(0, hugging_face_name.size() - kBias.size())), ".bias"};
  const size_t dot = std::min(hugging_face_name.rfind('.'), hugging_face_name.size());
  return {std::string(hugging_face_name.substr(0, dot)), std::string(hugging_face_name.substr(dot))};
}
std::string with_ending(const std::string& stem, std::string_view ending) {
  const bool correction = ends_with(stem, "e_score_correction") && ending == ".bias";
  if (holds_experts(stem)) return stem;
  return stem + (correction ? "_bias" : std::string(ending));
}

constexpr std::string_view kExpertsPart = ".experts.";

// The number that a text begins with, and its digits; −1 without one, and for "012".
struct LeadingNumber {
  int64_t value = -1;
  size_t digits = 0;
};
LeadingNumber number_at(std::string_view text) {
  LeadingNumber found;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), found.value);
  found.digits = static_cast<size_t>(end - text.data());
  const bool good = error == std::errc() && found.value >= 0 && std::to_string(found.value).size() == found.digits;
  return good ? found : LeadingNumber();
}

// Returns the place of an expert's number in a name; the name's size for a name without experts.
size_t place_of_expert(std::string_view name) {
  const size_t at = name.find(kExpertsPart);
  return at == name.npos ? name.size() : at + kExpertsPart.size();
}

// Splits "blk.12.attn_q" into 12 and "attn_q"; false for anything else, also for "blk.012.…".
bool split_layer(std::string_view text, int64_t* layer, std::string_view* rest) {
  if (!starts_with(text, "blk.")) return false;
  text.remove_prefix(4);
  const LeadingNumber number = number_at(text);
  if (number.value < 0 || number.value > 1'000'000 || !starts_with(text.substr(number.digits), ".")) return false;
  *layer = number.value;
  *rest = text.substr(number.digits + 1);
  return true;
}

}  // namespace

const GgufArchitecture* gguf_architecture(std::string_view name) {
  for (const GgufArchitecture& architecture : kArchitectures)
    if (architecture.name == name) return &architecture;
  return nullptr;
}

std::vector<std::string> gguf_architectures() {
  std::vector<std::string> names;
  for (const GgufArchitecture& architecture : kArchitectures) names.emplace_back(architecture.name);
  return names;
}

GgufName hugging_face_name(const GgufArchitecture& architecture, std::string_view gguf_name) {
  int64_t layer = -1;
  std::string_view rest;
  if (split_layer(gguf_name, &layer, &rest))
    if (const Name* vector = find(vectors_of(architecture), rest))
      return {std::string(names_of(architecture).prefix) + std::to_string(layer) + "." + std::string(vector->hugging_face), vector->role, layer};
  size_t dot = gguf_name.rfind('.');
  std::string_view suffix = dot == gguf_name.npos ? std::string_view() : gguf_name.substr(dot);
  if (suffix != ".weight" && suffix != ".bias") return {};
  std::string_view stem = gguf_name.substr(0, dot);
  const bool in_layer = split_layer(stem, &layer, &rest);
  const Name* name =
      in_layer ? find_in_layer(architecture, rest) : find(names_of(architecture).whole, stem);
  if (!name || (name->role == GgufRole::rope_factors && suffix != ".weight")) return {};
  if (name->hugging_face.empty()) return {"", name->role, layer};
  std::string prefix =
      in_layer ? std::string(names_of(architecture).prefix) + std::to_string(layer) + "." : "";
  return {with_ending(prefix + std::string(name->hugging_face), suffix), name->role, layer};
}

int64_t expert_number(std::string_view hugging_face_name) {
  return number_at(hugging_face_name.substr(place_of_expert(hugging_face_name))).value;
}

std::string name_of_expert(std::string_view name, int64_t expert) {
  std::string one(name);
  return one.replace(one.find('*'), 1, std::to_string(expert));
}

std::string gguf_name(const GgufArchitecture& architecture, std::string_view one_name) {
  std::string hugging_face_name(one_name);  // "…experts.*.up_proj" for "…experts.12.up_proj"
  const size_t expert = place_of_expert(one_name);
  if (const LeadingNumber number = number_at(one_name.substr(expert)); number.value >= 0)
    hugging_face_name.replace(expert, number.digits, "*");
  const Names& names = names_of(architecture);
  for (const Name& vector : vectors_of(architecture))
    if (const std::string end = "." + std::string(vector.hugging_face); ends_with(one_name, end) && starts_with(one_name, names.prefix))
      return "blk." + std::string(one_name.substr(names.prefix.size(), one_name.size() - end.size() - names.prefix.size())) + "." + std::string(vector.gguf);
  const Ended parts = ended(hugging_face_name);
  std::string_view stem = parts.stem;
  std::string prefix;
  if (starts_with(stem, names.prefix)) {
    stem.remove_prefix(names.prefix.size());
    prefix = "blk." + std::string(stem.substr(0, stem.find('.'))) + ".";
    stem.remove_prefix(std::min(stem.size(), stem.find('.') + 1));
  }
  const auto try_names = [&](std::span<const Name> among) -> std::string {
    for (const Name& name : among) {
      if (name.hugging_face != stem || name.hugging_face.empty()) continue;
      const std::string found =
          prefix + std::string(name.gguf) + parts.ending;
      // An architecture's own names take precedence over the shared ones.
      if (forge::hugging_face_name(architecture, found).name == hugging_face_name) return found;
    }
    return "";
  };
  if (prefix.empty()) return try_names(names.whole);
  const std::string own = try_names(names.own);
  return own.empty() ? try_names(kLayer) : own;
}

}  // namespace forge
