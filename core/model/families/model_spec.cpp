#include "core/model/families/model_spec.h"

#include "core/lib/base/file.h"
#include "core/lib/base/key_error.h"
#include "core/lib/base/text.h"
#include "core/lib/io/members.h"
#include "core/lib/io/python_json.h"
#include "core/job/job_json.h"
#include "core/model/families/config_spec.h"
#include "core/model/families/described_family.h"
#include "core/model/families/family.h"
#include "core/model/families/gguf_spec.h"
#include "core/model/families/modules.h"
#include "core/model/families/wrapper.h"
#include "core/lib/io/model_file.h"

namespace forge {
namespace {

constexpr auto kRopeMembers = [](auto& rope, auto&& member) {
  member("type", rope.type, "as config.json names it");
  member("theta", rope.theta, "base of the frequencies", at_least(1e-6));
  member("factor", rope.factor, "how many times longer the context is than before scaling", between(1e-6, 1e9));
  member("original_max_position_embeddings", rope.original_max_position_embeddings, "context before scaling", between(0, kMostPositions));
  member("low_freq_factor", rope.low_freq_factor, "llama3", between(1e-6, 1e9));
  member("high_freq_factor", rope.high_freq_factor, "llama3", between(1e-6, 1e9));
  member("beta_fast", rope.beta_fast, "yarn", between(1e-6, 1e9));
  member("beta_slow", rope.beta_slow, "yarn", between(1e-6, 1e9));
  member("attention_factor", rope.attention_factor, "yarn; 0: derived from factor and mscale", between(0, 1e9));
  member("mscale", rope.mscale, "yarn; 0: absent", between(0, 1e9));
  member("mscale_all_dim", rope.mscale_all_dim, "yarn; 0: absent", between(0, 1e9));
  member("truncate", rope.truncate, "yarn: the bounds of the ramp are whole numbers");
  member.later("short_factors", rope.short_factors, "longrope: factor of each frequency within the original context", between(1e-9, 1e9));
  member.later("long_factors", rope.long_factors, "longrope: factor of each frequency past it", between(1e-9, 1e9));
  member.later("interleaved", rope.interleaved, "neighbouring features form a pair, instead of one from each half");
  member("partial_rotary_factor", rope.partial_rotary_factor, "share of each head that is rotated", between(0, 1));
};

constexpr auto kAddedRowMembers = [](auto& row, auto&& member) {
  member("id", row.id, "id of the token", at_least(0));
  member("from", row.from, "tokens whose mean the row starts from; none: all", at_least(0));
};

constexpr auto kSpecMembers = [](auto& spec, auto&& member) {
  member("family", spec.family, "the family that forge builds");
  member("architecture", spec.architecture, "the architecture that the file names");
  member.rare("described", spec.described, "family file, as YAML; empty: a family that forge has");
  member.later("wrapper", spec.wrapper, "model_type of the class with towers around the language model; empty: none");
  member("vocab_size", spec.vocab_size, "rows of the embedding", between(1, kMostVocab));
  member("hidden_size", spec.hidden_size, "width of the residual stream", between(1, kMostHidden));
  member("intermediate_size", spec.intermediate_size, "width inside the MLP", between(1, kMostIntermediate));
  member("num_layers", spec.num_layers, "decoder layers", between(1, kMostLayers));
  member("num_heads", spec.num_heads, "attention heads", between(1, kMostHeads));
  member("num_kv_heads", spec.num_kv_heads, "heads of keys and values", between(1, kMostHeads));
  member("head_dim", spec.head_dim, "width of a head", between(1, kMostHeadDim));
  member("max_position_embeddings", spec.max_position_embeddings, "longest context", between(1, kMostPositions));
  member("sliding_window", spec.sliding_window, "tokens that attention looks back at; 0: all", between(0, kMostPositions));
  member("rms_norm_eps", spec.rms_norm_eps, "added to the mean square", between(0, 1));
  member("tie_word_embeddings", spec.tie_word_embeddings, "the embedding is also the head");
  member("qkv_bias", spec.qkv_bias, "q_proj, k_proj and v_proj have biases");
  member("o_bias", spec.o_bias, "o_proj has a bias");
  member("mlp_bias", spec.mlp_bias, "gate_proj, up_proj and down_proj have biases");
  member.later("head_bias", spec.head_bias, "the head has a bias");
  member.later("score_head", spec.score_head, "the head gives one number for a text instead of logits");
  member.later("qk_norm", spec.qk_norm, "each head of q and k is normed");
  member.later("full_layers", spec.full_layers, "layers that see everything although there is a sliding_window");
  member.later("parallel_residual", spec.parallel_residual, "attention and MLP read the same stream");
  member.later("norms_apart", spec.norms_apart, "attention and MLP read the stream through norms of their own");
  member.later("tanh_gelu", spec.tanh_gelu, "gelu is computed with tanh");
  member.later("layer_norm", spec.layer_norm, "norms subtract the mean");
  member.later("norm_bias", spec.norm_bias, "norms have biases");
  member.later("bare_norms", spec.bare_norms, "norms have neither weights nor biases");
  member.later("window_rope_theta", spec.window_rope_theta, "theta of the layers with a sliding_window; 0: as the others", between(0, 1e12));
  member.later("full_head_dim", spec.full_head_dim, "width of a head in layers without a window; 0: as in the others", between(0, kMostHeadDim));
  member.later("full_kv_heads", spec.full_kv_heads, "heads of keys and values in layers without a window; 0: as in the others", between(0, kMostHeads));
  member.later("keys_as_values", spec.keys_as_values, "layers without a window take their keys for values");
  member.later("shared_kv_layers", spec.shared_kv_layers, "last layers that attend to the keys and values of an earlier one", between(0, kMostLayers));
  member.later("wide_shared_mlps", spec.wide_shared_mlps, "the MLPs of those layers are twice as wide");
  member.later("layer_input_size", spec.layer_input_size, "features that each layer takes of a token from a table; 0: none", between(0, kMostHidden));
  member.later("layer_input_vocab", spec.layer_input_vocab, "rows of that table", between(0, kMostVocab));
  member.later("no_rope_layers", spec.no_rope_layers, "layers without rotary positions");
  member.later("query_growth", spec.query_growth, "queries grow with the logarithm of their position's period; 0: not", between(0, 1e6));
  member.later("query_growth_period", spec.query_growth_period, "tokens after which queries grow", between(0, kMostPositions));
  member.later("growth_of_unturned", spec.growth_of_unturned, "only queries of layers without rotary positions grow");
  member.later("attention_chunk", spec.attention_chunk, "tokens of a chunk, which sees itself alone; 0: no chunks", between(0, kMostPositions));
  member.later("unit_norms", spec.unit_norms, "rotated q and k are normed by head, without a weight");
  member.later("rope_sections", spec.rope_sections, "frequencies that turn by time, height and width of an image's patch", at_least(0));
  member.later("image_layers", spec.image_layers, "layers that an image's features are added to", between(0, kMostLayers));
  member.later("learned_positions", spec.learned_positions, "a row of a table is added for each position");
  member.later("position_offset", spec.position_offset, "the row of position 0 in that table", between(0, kMostPositions));
  member.later("alibi", spec.alibi, "scores grow with the positions of keys (ALiBi)");
  member.later("encoder_layers", spec.encoder_layers, "encoder layers, whose output each of num_layers sees; 0: no encoder", between(0, kMostLayers));
  member.later("decoder_start_id", spec.decoder_start_id, "encoder-decoder: the token that an answer follows", at_least(-1));
  member.later("position_buckets", spec.position_buckets, "buckets of the bias of scores by distance; 0: no bias", between(0, kMostPositions));
  member.later("position_distance", spec.position_distance, "distance in tokens from which on that bias is constant", between(0, kMostPositions));
  member.later("gated_mlp", spec.gated_mlp, "the MLP has a gate, in a family that has both kinds");
  member.later("num_experts", spec.num_experts, "experts in place of an MLP; 0: none", between(0, kMostExperts));
  member.later("experts_per_token", spec.experts_per_token, "experts that a token goes through", between(0, kMostExperts));
  member.later("expert_size", spec.expert_size, "width inside an expert", between(0, kMostIntermediate));
  member.later("shared_expert_size", spec.shared_expert_size, "width inside the expert that every token goes through; 0: none", between(0, kMostIntermediate));
  member.later("dense_layers", spec.dense_layers, "layers with an MLP instead of experts");
  member.later("joined_experts", spec.joined_experts, "one tensor holds each matrix of all experts of a layer");
  member.later("normalise_experts", spec.normalise_experts, "the weights of a token's experts sum to 1");
  member.later("expert_groups", spec.expert_groups, "groups that experts are chosen within", between(1, kMostExperts));
  member.later("groups_per_token", spec.groups_per_token, "groups that a token may choose from", between(1, kMostExperts));
  member.later("expert_scale", spec.expert_scale, "multiplies the weights of a token's experts", between(1e-9, 1e9));
  member.later("attention_sinks", spec.attention_sinks, "a logit for each head takes its share of the softmax");
  member.later("gate_limit", spec.gate_limit, "limit of a clamped gate; 0: none", between(0, 1e9));
  member.later("gate_alpha", spec.gate_alpha, "alpha of a clamped gate", between(-1e9, 1e9));
  member.later("q_latent", spec.q_latent, "width that q is made from; 0: the stream", between(0, kMostHidden));
  member.later("kv_latent", spec.kv_latent, "width that k and v are made from; 0: the stream", between(0, kMostHidden));
  member.later("rope_head_dim", spec.rope_head_dim, "latent attention: features of a head that are rotated", between(0, kMostHeadDim));
  member.later("value_head_dim", spec.value_head_dim, "latent attention: width of a head's values", between(0, kMostHeadDim));
  member.later("index_heads", spec.index_heads, "heads of the indexer; 0: none",
               between(0, kMostHeads));
  member.later("index_head_dim", spec.index_head_dim, "width of a head of the indexer",
               between(0, kMostHeadDim));
  member.later("index_topk", spec.index_topk,
               "tokens that the indexer chooses, and longest text; 0: no indexer",
               between(0, kMostPositions));
  member.later("shared_index_layers", spec.shared_index_layers,
               "layers without an indexer of their own");
  member.later("router_loss", spec.router_loss, "weight of the loss that balances the experts; 0: none", between(0, 1e6));
  member.later("norm_offset", spec.norm_offset, "added to the weights of norms", between(0, 1));
  member.later("embedding_scale", spec.embedding_scale, "multiplies the embeddings", between(1e-9, 1e9));
  member.later("residual_scale", spec.residual_scale, "multiplies what a layer adds to the stream", between(1e-9, 1e9));
  member.later("logit_scale", spec.logit_scale, "multiplies the logits", between(1e-9, 1e9));
  member.later("attention_scale", spec.attention_scale, "factor of q·k; 0: 1 / sqrt(head_dim)", between(0, 1e9));
  member.later("qkv_clip", spec.qkv_clip, "bounds q, k and v; 0: no bounds", between(0, 1e9));
  member.later("attention_gate", spec.attention_gate, "q_proj also makes a gate of what attention mixes");
  member.later("delta_layers", spec.delta_layers, "layers with a gated delta rule in place of attention", between(0, kMostLayers));
  member.later("delta_key_heads", spec.delta_key_heads, "delta rule: heads of queries and keys", between(0, kMostHeads));
  member.later("delta_value_heads", spec.delta_value_heads, "delta rule: heads of values", between(0, kMostHeads));
  member.later("delta_key_dim", spec.delta_key_dim, "delta rule: width of a head of queries and keys", between(0, kMostHeadDim));
  member.later("delta_value_dim", spec.delta_value_dim, "delta rule: width of a head of values", between(0, kMostHeadDim));
  member.later("conv_width", spec.conv_width, "delta rule: taps of the convolution before it", between(0, 8));
  member.later("state_space", spec.state_space, "layers with a delta rule have Mamba-2's state space in its place");
  member.later("conv_bias", spec.conv_bias, "state space: the convolution has a bias");
  member.later("state_bias", spec.state_bias, "state space: in_proj and out_proj have biases");
  member.later("least_step", spec.least_step, "state space: least step", between(0, 1e9));
  member.later("state_norm_heads", spec.state_norm_heads, "state space: parts that are normed apart; 0: no norm", between(0, kMostHeads));
  member.later("attention_beside", spec.attention_beside, "state space: its layers attend too");
  member.later("mlp_layers", spec.mlp_layers, "layers with an MLP or experts alone", between(0, kMostLayers));
  member.later("expert_latent", spec.expert_latent, "width that experts read and write; 0: the stream's", between(0, kMostHidden));
  member.later("layer_factors", spec.layer_factors, "factors of a layer's values (Falcon-H1); none: 1", between(-1e9, 1e9));
  member.later("norm_before_gate", spec.norm_before_gate, "state space: the norm comes before the gate");
  member.later("attention_softcap", spec.attention_softcap, "bounds the scores; 0: none", between(0, 1e9));
  member.later("logit_softcap", spec.logit_softcap, "bounds the logits; 0: none", between(0, 1e9));
  member("rope", spec.rope, "rotary position embedding");
  member("eos_token_ids", spec.eos_token_ids, "tokens that end a text", at_least(0));
  member("bos_token_id", spec.bos_token_id, "-1: none", at_least(-1));
  member("pad_token_id", spec.pad_token_id, "-1: none", at_least(-1));
  member.later("base_vocab_size", spec.base_vocab_size, "rows in the model's file if tokens were added; 0: vocab_size", between(0, kMostVocab));
  member.later("added_rows", spec.added_rows, "added tokens, whose rows are not in the file");
  member.later("kept_modules", spec.kept_modules,
               "modules that the checkpoint keeps out of its codes, and a quantised base too");
  member.later("initializer_range", spec.initializer_range, "standard deviation of randomly initialised weights", between(0, 100));
};

constexpr int64_t kLargestConfig = 16 << 20;

// Returns the text that messages begin with.
std::string config_name(const ModelConfig& model) {
  return model.architecture.empty() ? model.path + "/config.json" : "model.architecture";
}

}  // namespace

void to_json(Json& json, RopeType type) { json = name_of(type); }
void from_json(const Json& json, RopeType& type) {
  std::string name;
  read_value(json, name);
  type = rope_type_of(name);
}
Json schema_of(RopeType) { return {{"type", "string"}}; }

void to_json(Json& json, const RopeSpec& rope) { json = write_members(rope, kRopeMembers); }
void from_json(const Json& json, RopeSpec& rope) { read_members(json, rope, kRopeMembers); }
Json schema_of(const RopeSpec& rope) { return members_schema(rope, kRopeMembers); }

void to_json(Json& json, const AddedRow& row) { json = write_members(row, kAddedRowMembers); }
void from_json(const Json& json, AddedRow& row) { read_members(json, row, kAddedRowMembers); }
Json schema_of(const AddedRow& row) { return members_schema(row, kAddedRowMembers); }

void to_json(Json& json, const ModelSpec& spec) { json = write_members(spec, kSpecMembers); }
void from_json(const Json& json, ModelSpec& spec) {
  read_members(json, spec, kSpecMembers);
  for (const std::string& fault : spec_faults(spec)) throw MemberFault(": " + fault);
}
Json schema_of(const ModelSpec& spec) { return members_schema(spec, kSpecMembers); }

ModelSpec with_score_head(ModelSpec spec) {
  spec.score_head = true;
  spec.tie_word_embeddings = spec.head_bias = false;
  return spec;
}

bool starts_score_head(const ModelSpec& spec) { return spec.score_head && !ends_with(spec.architecture, kScoringSuffix); }

ModelSpec read_model_spec(const std::string& path) { return read_model_spec(ModelConfig{.path = path}); }

// Returns the model whose weights lie at model.path.
static ModelSpec read_stored_spec(const ModelConfig& model) {
  const std::string& path = model.path;
  if (!is_directory(path)) {
    if (ends_with(lower(path), ".gguf")) return model_spec_of_gguf(path, described_of(model, Json()));
    throw Error(ErrorKind::environment,
                path + (file_exists(path) ? ": not a model" : ": no such model"))
        .hint("model.path is a Hugging Face folder with config.json, or a .gguf file");
  }
  const ModelConfig stored{.path = path, .family = model.family};
  const Json config = model_config(stored);
  ModelSpec spec = model_spec_from_config(config, path + "/config.json", described_of(stored, config));
  // transformers shares the weights of head and embedding of such a file unless it holds both
  // tensors.
  if (const Wrapper* wrapper = wrapper_of(spec); wrapper && wrapper->tied && !says_tying(config) && has_weights(path))
    spec.tie_word_embeddings = current_names(spec, open_model(path, Data::optional))->find(logits_head_name(spec)) < 0;
  const std::string& apart = family_of(spec).apart_ending;
  if (!apart.empty() && has_weights(path))
    spec.joined_experts = std::ranges::none_of(
        open_model(path, Data::optional)->tensors(),
        [&](const TensorInfo& tensor) { return ends_with(tensor.name, apart); });
  return spec;
}

Json model_config(const ModelConfig& model) {
  const std::string file = model.path + "/config.json";
  Json config = Json::object();
  if (file_exists(file))
    config = parse_python_json(read_file(file, kLargestConfig, ErrorKind::environment), file);
  else if (!model.architecture.contains("model_type")) {
    const std::string gguf = name_with_suffix(model.path, ".gguf");
    throw Error(ErrorKind::environment, model.path + (is_directory(model.path) ? ": a folder without config.json" : ": no folder with a config.json"))
        .hint(model.init == ModelInit::random ? "describe the whole model in model.architecture, beginning with model_type"
              : gguf.empty()                  ? "model.path is a Hugging Face folder with config.json, or a .gguf file"
                                              : "the folder holds " + gguf + ": name that file in model.path");
  }
  if (model.architecture.empty() || !config.is_object()) return config;
  const Json stated = json_of(model.architecture);
  if (const auto type = stated.find("model_type"); type != stated.end() && *type != config.value("model_type", Json())) {
    if (!described_of(model, stated)) family_of_type(*type);  // or it is unknown
    config = Json::object();
  }
  config.update(stated);
  return config;
}

ConfigNotes config_notes(const ModelConfig& model) {
  if (!is_directory(model.path) && model.init == ModelInit::file) return {};
  const Json config = model_config(model);
  ConfigNotes notes = read_config(config, config_name(model), described_of(model, config)).notes;
  notes.adapter_beside =
      model.init == ModelInit::file && file_exists(model.path + "/adapter_config.json");
  if (model.dropout == BaseDropout::config && !notes.dropouts.empty())
    throw KeyError(ErrorKind::job, "model.dropout",
                   "is config, and config.json has " + join(notes.dropouts, ", ") + ": forge computes no dropout inside the base model",
                   "model.dropout: none trains without it; adapter.dropout is the adapter's own");
  return notes;
}

ModelSpec read_model_spec(const ModelConfig& model) {
  if (model.init == ModelInit::file) return read_stored_spec(model);
  const Json config = model_config(model);
  const ModelSpec spec = model_spec_from_config(config, config_name(model), described_of(model, config));
  if (!spec.wrapper.empty())
    throw KeyError(ErrorKind::job, "model.init",
                   "random initialises only a language model, and " + spec.architecture + " also has towers",
                   "write model.architecture with the language model's own model_type, " + spec.family);
  return spec;
}

}  // namespace forge
