#pragma once
// ModelSpec describes a model, as read from config.json or a GGUF's metadata before any weight is
// touched.
//
//   ModelSpec spec = read_model_spec("models/SmolLM2-135M-Instruct.gguf");
//   for (const Parameter& p : base_parameters(spec)) …
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/job/job.h"
#include "core/lib/io/json.h"
#include "core/lib/io/tensor_file.h"

namespace forge {

// Rotary position embedding, with the names of transformers' modeling_rope_utils.
// proportional: only the first of a whole head's frequencies turn (Gemma 4).
enum class RopeType { standard, linear, dynamic, llama3, yarn, longrope, proportional };

struct RopeSpec {
  RopeType type = RopeType::standard;
  double theta = 10000;
  double factor = 1;
  int64_t original_max_position_embeddings = 0;
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn
  double attention_factor = 0;                       // yarn, longrope; 0: derived from factor (and mscale)
  double mscale = 0, mscale_all_dim = 0;             // yarn, as DeepSeek writes it; 0: absent
  bool truncate = true;                              // yarn
  std::vector<double> short_factors, long_factors;   // longrope: [rotary_dim / 2], within the original context and past it
  double partial_rotary_factor = 1;
  bool interleaved = false;  // the pairs are features 2i and 2i + 1, not i and i + half

  bool operator==(const RopeSpec&) const = default;
};

inline int64_t rotary_dim_of(int64_t head_dim, double partial_rotary_factor) {
  return static_cast<int64_t>(static_cast<double>(head_dim) * partial_rotary_factor);
}

// A token whose rows of the embedding and the head are not in the file. They are the mean of the
// rows `from`, or of all rows if `from` is empty.
struct AddedRow {
  int64_t id = 0;
  std::vector<int64_t> from;

  bool operator==(const AddedRow&) const = default;
};

struct ModelSpec {
  bool operator==(const ModelSpec&) const = default;

  std::string family;        // a row of families.cpp: "llama"
  std::string architecture;  // name in the file: "LlamaForCausalLM", or a GGUF's "llama"
  std::string described;     // the text of a family file that the program does not have (description.h); empty: a row of families.cpp
  std::string wrapper;       // model_type of the class with towers around the language model (wrapper.h): "gemma3"; empty: none
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_layers = 0;
  int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  int64_t max_position_embeddings = 0;
  int64_t sliding_window = 0;        // tokens that attention looks back on, itself included; 0: all
  std::vector<int64_t> full_layers;  // layers without that window
  double window_rope_theta = 0;      // RoPE base of layers with a window; 0: rope.theta
  // Width of a head, and heads of keys and values, in layers without a window; 0: as in the others.
  int64_t full_head_dim = 0, full_kv_heads = 0;
  // The last layers that attend to the keys and values of the last layer before them with a window,
  // or without one, as they are themselves; and if their MLPs are twice as wide as the others.
  int64_t shared_kv_layers = 0;
  bool wide_shared_mlps = false;
  // Features that each layer takes of a token from a table of its own, and rows of that table; 0:
  // none.
  int64_t layer_input_size = 0, layer_input_vocab = 0;
  bool keys_as_values = false;  // layers without a window have no matrix of values: keys serve before their norm
  std::vector<int64_t> no_rope_layers;  // layers without rotary positions
  // A query at position p is multiplied by 1 + query_growth ln(1 + floor(p / query_growth_period)).
  double query_growth = 0;  // 0: it is not
  int64_t query_growth_period = 0;
  // Only queries of layers without rotary positions grow, those of position p as at p + 1.
  bool growth_of_unturned = false;
  int64_t attention_chunk = 0;  // texts are cut into chunks of so many tokens, which see themselves alone; 0: not. full_layers see all
  bool unit_norms = false;      // turned q and k are normed by head, without a weight
  // Frequencies that turn by time, height and width of an image's patch, and the layers that an
  // image's features are added to. In a text neither changes anything.
  std::vector<int64_t> rope_sections;
  int64_t image_layers = 0;
  bool learned_positions = false;       // a row of a table is added for each position
  int64_t position_offset = 0;          // the row of position 0
  bool alibi = false;            // scores grow with the keys' positions, by a slope of each head
  int64_t encoder_layers = 0;    // layers that read a source; 0: a decoder alone
  int64_t decoder_start_id = -1; // encoder-decoder: the token that precedes an answer
  // Buckets of a bias of scores by distance, and the distance from which on all have one bias; 0:
  // none.
  int64_t position_buckets = 0, position_distance = 0;
  bool gated_mlp = true;         // for a family that has both kinds (T5)
  bool tanh_gelu = false;        // gelu by its formula with tanh, for a family that has both (GPT-NeoX)
  double rms_norm_eps = 1e-6;  // epsilon of layer norms, too
  bool tie_word_embeddings = false;
  bool score_head = false;  // one number for a text at its last token ("score") in place of logits; never tied
  bool qkv_bias = false, o_bias = false, mlp_bias = false;
  bool head_bias = false;      // the language model's head has a bias, tied or not
  bool parallel_residual = false;  // attention and MLP read the same stream
  bool norms_apart = false;        // each through a norm of its own, in a family that has both
  bool qk_norm = false;        // each head of q and k is normed
  bool layer_norm = false, norm_bias = false;  // norms take the mean away; they have biases
  bool bare_norms = false;  // norms have neither weights nor biases
  int64_t num_experts = 0;      // experts that replace an MLP; 0: none
  int64_t experts_per_token = 0, expert_size = 0;  // expert_size: an expert's intermediate size
  int64_t shared_expert_size = 0;  // intermediate size of the expert for every token; 0: none
  std::vector<int64_t> dense_layers;               // layers that have an MLP instead of experts
  bool joined_experts = false;                     // one tensor holds each matrix of all experts of a layer
  bool normalise_experts = false;                  // the weights of a token's experts have the sum 1
  int64_t expert_groups = 1, groups_per_token = 1;  // experts are chosen within the best groups
  double expert_scale = 1;                          // factor of the weights of a token's experts
  double router_loss = 0;  // factor of the loss that balances the experts; 0: none
  double norm_offset = 0;      // added to the weights of norms
  double embedding_scale = 1;  // rounded to the compute type
  double residual_scale = 1;   // factor of what a layer adds to the residual stream
  double logit_scale = 1;
  double attention_scale = 0;  // factor of q·k; 0: 1 / sqrt(head_dim)
  double qkv_clip = 0;         // q, k and v lie between it and its negative; 0: no bounds
  bool attention_sinks = false;       // a logit for each head takes its share of the softmax
  // Bound and alpha of a clamped gate (gpt-oss); gate_limit 0: none.
  double gate_limit = 0, gate_alpha = 1;
  // Widths of latent attention (DeepSeek-V2). q_latent is 0 if q is made from the stream directly;
  // kv_latent is 0 if q, k and v are.
  int64_t q_latent = 0, kv_latent = 0;
  // Rotated features of a head; features of its values.
  int64_t rope_head_dim = 0, value_head_dim = 0;
  // Heads and their width of the indexer that chooses index_topk tokens for attention to see
  // (DeepSeek V3.2), and layers that share the choice of one before them. forge computes texts of
  // index_topk tokens and fewer, of which it chooses all; 0: no indexer.
  int64_t index_heads = 0, index_head_dim = 0, index_topk = 0;
  std::vector<int64_t> shared_index_layers;
  bool latent() const { return kv_latent > 0; }
  bool reads_source() const { return encoder_layers > 0; }
  bool attention_gate = false;  // q_proj also makes a gate of what attention mixes
  // Layers that mix by a gated delta rule in place of attention; its heads of q and k and of v,
  // and the taps of the convolution before it. state_space: they mix by Mamba-2's state space,
  // whose groups have C and B as q and k, and whose heads have x as v.
  std::vector<int64_t> delta_layers;
  int64_t delta_key_heads = 0, delta_value_heads = 0, delta_key_dim = 0, delta_value_dim = 0;
  int64_t conv_width = 0;
  bool state_space = false, conv_bias = false, state_bias = false;  // biases of the convolution; of in_proj and out_proj
  double least_step = 0;        // of a state space's steps
  int64_t state_norm_heads = 1;  // parts of a state space's result that are normed apart; 0: it is not normed
  bool norm_before_gate = false;  // a state space's result is normed, then multiplied by its gate
  bool attention_beside = false;  // layers with a state space attend too
  std::vector<int64_t> mlp_layers;  // layers with an MLP or experts alone, in models whose layers are one thing each
  int64_t expert_latent = 0;        // width that experts read and write; 0: the stream's
  // Falcon-H1's factors: of in_proj's parts (gate, x, B, C, steps), of q and v, and k, of what a
  // state space and attention add, of an MLP's gate and result. Empty: none.
  std::vector<double> layer_factors;
  // True for a model whose decoding keeps states, which cannot take tokens back.
  bool recurrent() const { return !delta_layers.empty(); }
  double attention_softcap = 0, logit_softcap = 0;  // c tanh(x / c) over scores and logits; 0: none
  RopeSpec rope;
  std::vector<int64_t> eos_token_ids;
  int64_t bos_token_id = -1, pad_token_id = -1;
  double initializer_range = 0.02;  // standard deviation of random initial weights

  int64_t base_vocab_size = 0;  // rows that the model's file has, where tokens were added; 0: vocab_size
  std::vector<AddedRow> added_rows;
  // Modules that the checkpoint keeps out of its codes (llm_int8_skip_modules): they stay plain
  // when the base is quantised in blocks.
  std::vector<std::string> kept_modules;

  // Returns the number of rotated features of a head; and in layers with a window that turn by
  // window_rope.
  int64_t rotary_dim() const {
    if (latent()) return rope_head_dim;
    const int64_t width = full_head_dim > 0 ? full_head_dim : head_dim;
    return rope.type == RopeType::proportional ? width : rotary_dim_of(width, rope.partial_rotary_factor);
  }
  int64_t window_rotary_dim() const {
    return full_head_dim > 0 ? rotary_dim_of(head_dim, window_rope().partial_rotary_factor) : rotary_dim();
  }
  // True if queries grow by an op of their own; otherwise by that which turns them, which leaves
  // features that are not turned as they are.
  bool grows_apart() const { return growth_of_unturned || latent(); }
  int64_t grown_dim() const { return grows_apart() ? head_dim : rotary_dim(); }
  // Returns the number of cosines and sines of a token.
  int64_t angles() const {
    return rotary_dim() + (query_growth > 0 ? grown_dim() : 0) + (window_rope_theta > 0 ? window_rotary_dim() : 0);
  }
  RopeSpec window_rope() const {
    const double partial = rope.type == RopeType::proportional ? 1 : rope.partial_rotary_factor;
    return {.theta = window_rope_theta, .partial_rotary_factor = partial, .interleaved = rope.interleaved};
  }
  bool turns(int64_t layer) const {
    return rotary_dim() > 0 && std::count(no_rope_layers.begin(), no_rope_layers.end(), layer) == 0;
  }
  // Layers whose keys and values decoding keeps.
  int64_t attention_layers() const {
    return num_layers - (attention_beside ? 0 : static_cast<int64_t>(delta_layers.size())) - static_cast<int64_t>(mlp_layers.size());
  }
  bool attends(int64_t layer) const {
    return (attention_beside || !delta(layer)) && std::count(mlp_layers.begin(), mlp_layers.end(), layer) == 0;
  }
  bool delta(int64_t layer) const { return std::count(delta_layers.begin(), delta_layers.end(), layer) > 0; }
  // Features of q, k and v together, which the convolution reads.
  int64_t conv_channels() const { return 2 * delta_key_heads * delta_key_dim + delta_value_heads * delta_value_dim; }
  // True if layer number `layer` has no experts.
  bool dense(int64_t layer) const {
    return num_experts == 0 || std::count(dense_layers.begin(), dense_layers.end(), layer) > 0;
  }
  // Returns the tokens of a chunk in layer number `layer`; 0: it sees the whole text.
  int64_t chunk(int64_t layer) const {
    return std::count(full_layers.begin(), full_layers.end(), layer) > 0 ? 0 : attention_chunk;
  }
  // Returns the window of layer number `layer`; 0: full attention.
  int64_t window(int64_t layer) const {
    return std::count(full_layers.begin(), full_layers.end(), layer) > 0 ? 0 : sliding_window;
  }
  bool windowed(int64_t layer) const { return window(layer) > 0; }
  // Return the width of a head, and the heads of keys and values, of layer number `layer`.
  int64_t head_width(int64_t layer) const {
    return full_head_dim > 0 && !windowed(layer) ? full_head_dim : head_dim;
  }
  int64_t kv_heads(int64_t layer) const {
    return full_kv_heads > 0 && !windowed(layer) ? full_kv_heads : num_kv_heads;
  }
  int64_t key_width(int64_t layer) const { return kv_heads(layer) * head_width(layer); }
  // Returns the layer whose keys and values layer number `layer` attends to.
  int64_t kv_layer(int64_t layer) const {
    if (layer < num_layers - shared_kv_layers) return layer;
    int64_t source = num_layers - shared_kv_layers - 1;
    while (source > 0 && windowed(source) != windowed(layer)) --source;
    return source;
  }
  bool shares_kv(int64_t layer) const { return kv_layer(layer) != layer; }
};

void to_json(Json& json, const AddedRow& row);
void from_json(const Json& json, AddedRow& row);
Json schema_of(const AddedRow& row);
void to_json(Json& json, const ModelSpec& spec);
void from_json(const Json& json, ModelSpec& spec);
Json schema_of(const ModelSpec& spec);

// Returns the model with a score head in place of its vocabulary's head.
ModelSpec with_score_head(ModelSpec spec);
// True if the score head is not in the file, which holds a language model. The head then starts at
// zero.
bool starts_score_head(const ModelSpec& spec);

// Notes on a config.json beside the spec.
struct ConfigNotes {
  std::vector<std::string> ignored;   // "KEY (VALUE)": the class that transformers builds never reads them
  std::vector<std::string> dropouts;  // "KEY VALUE" inside the base model, above 0
  std::string built;                  // a sentence where the class is not the one that architectures names; else empty
  std::string architecture;           // the class in transformers
  bool adapter_beside = false;        // the model's folder holds an adapter too
  std::string stored;                 // how a library quantised the matrices: "nf4 (bitsandbytes)"; else empty
};

// Reads config.json of a folder, or a GGUF's metadata. Throws Error(job) for an architecture that
// forge does not know (with the known list) or a setting that it would have to ignore,
// Error(environment) for a missing or broken file.
ModelSpec read_model_spec(const std::string& path);

// Returns the model of a job: that of its path, or, if its weights are drawn, that of config.json
// and model.architecture together.
ModelSpec read_model_spec(const ModelConfig& model);
// Returns the config.json of a folder, with the settings of model.architecture over it.
Json model_config(const ModelConfig& model);
// Returns the notes beside the spec; none for a GGUF. Throws KeyError(job) if model.dropout asks
// for dropouts of config.json.
ConfigNotes config_notes(const ModelConfig& model);

}  // namespace forge
