#pragma once
// What a model is, read from config.json or a GGUF's metadata before any weight is touched.
//
//   ModelSpec spec = read_model_spec("models/SmolLM2-135M-Instruct.gguf");
//   for (const Parameter& p : base_parameters(spec)) …
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/io/json.h"
#include "core/io/tensor_file.h"

namespace forge {

// Rotary position embedding, with the names of transformers' modeling_rope_utils.
enum class RopeType { standard, linear, dynamic, llama3, yarn };

struct RopeSpec {
  RopeType type = RopeType::standard;
  double theta = 10000;
  double factor = 1;
  int64_t original_max_position_embeddings = 0;
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn
  double attention_factor = 0;                       // yarn; 0: derived from factor (and mscale)
  double mscale = 0, mscale_all_dim = 0;             // yarn, as DeepSeek writes it; 0: absent
  bool truncate = true;                              // yarn
  double partial_rotary_factor = 1;
};

struct ModelSpec {
  std::string family;        // a row of families.cpp: "llama"
  std::string architecture;  // as the file says: "LlamaForCausalLM", or a GGUF's "llama"
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_layers = 0;
  int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  int64_t max_position_embeddings = 0;
  int64_t sliding_window = 0;        // tokens that attention looks back on, itself included; 0: all
  std::vector<int64_t> full_layers;  // layers without that window
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  bool score_head = false;  // one number for a text at its last token ("score") in place of logits; never tied
  bool qkv_bias = false, o_bias = false, mlp_bias = false;
  bool qk_norm = false;        // each head of q and k is normed
  double norm_offset = 0;      // added to the weights of norms
  double embedding_scale = 1;  // rounded to the compute type
  double attention_scale = 0;  // of q·k; 0: 1 / sqrt(head_dim)
  double attention_softcap = 0, logit_softcap = 0;  // c tanh(x / c) over scores and logits; 0: none
  RopeSpec rope;
  std::vector<int64_t> eos_token_ids;
  int64_t bos_token_id = -1, pad_token_id = -1;

  // Of layer number `layer`; 0: it sees all.
  int64_t window(int64_t layer) const {
    return std::count(full_layers.begin(), full_layers.end(), layer) > 0 ? 0 : sliding_window;
  }
};

void to_json(Json& json, const ModelSpec& spec);
void from_json(const Json& json, ModelSpec& spec);
Json schema_of(const ModelSpec& spec);

// The same model with a score head in place of its vocabulary's.
ModelSpec with_score_head(ModelSpec spec);
// Whether the score head is not the file's own, which holds a language model: it then starts at zero.
bool starts_score_head(const ModelSpec& spec);

// Reads config.json of a folder, or a GGUF's metadata. Throws Error(job) for an architecture forge does not
// know (with the known list) or a setting it would have to ignore, Error(environment) for a missing or broken
// file.
ModelSpec read_model_spec(const std::string& path);

}  // namespace forge
