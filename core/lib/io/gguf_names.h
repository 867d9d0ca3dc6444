#pragma once
// Converts the names of tensors: llama.cpp's (gguf-py/gguf/constants.py) to Hugging Face's, by
// architecture.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace forge {

// Treatment by llama.cpp's loader of a part that models have or have not.
enum class GgufPart { optional, required, unknown };

struct GgufArchitecture {
  std::string_view name;
  bool permutes_heads = false;     // rows of q and k are in RoPE's neighbour order
  bool norms_plus_one = false;     // weights of norms are stored with 1 added
  // Names that its layers' tensors have beside those that most have.
  enum class Layer {
    plain, llama, experts, phi3, sandwich, olmo2, glm, glm4, starcoder2, gpt_neox, falcon, gpt2,
    phi2, seed_oss, hunyuan, bloom, mpt, routed, glm4_moe, minimax, ernie_moe, hunyuan_moe, granite_moe, qwen3_next, qwen35
  } layer = Layer::plain;
  GgufPart biases = GgufPart::unknown;  // of attention's output and of the MLP
  GgufPart head = GgufPart::optional;   // of its own, beside the embedding
  bool square_attention = false;        // all heads together are as wide as the model
  bool equal_heads = false;             // as many heads of keys and values as of queries
  bool tiled_values = false;            // heads of a delta rule's values: the first of each key head, then the second …
  bool rope_freqs = false, rope_factors = false;  // llama.cpp loads rope_freqs; rope_factors_short and rope_factors_long
};

// Returns the architecture of that name; null when forge does not know it.
const GgufArchitecture* gguf_architecture(std::string_view name);
std::vector<std::string> gguf_architectures();

// Meaning of a tensor for a model. grouped_qkv: q, k and v in one matrix, which Hugging Face holds
// group by group. experts: [experts, out, in] of a matrix that Hugging Face's files hold expert by
// expert; row: a vector that is a matrix of one row there. gate_half, up_half: a gate's rows and
// those that it lets through, which are the halves of one matrix there, or of each expert's. The
// others are of a layer with a delta rule,
// whose heads of values may have another order (GgufRows): delta_qkv and delta_filter have rows of
// values after those of q and k; delta_values rows of values, delta_heads a row for each of their
// heads, delta_rates −e^x of each; delta_out has columns of values; delta_joined and delta_gate are
// q, k and v, and the gate, of one matrix that Hugging Face holds key head by key head.
enum class GgufRole {
  weight, query, key, grouped_qkv, norm, experts, row, gate_half, up_half, rope_factors, ignored, unknown,
  delta_qkv, delta_filter, delta_values, delta_heads, delta_rates, delta_out, delta_joined, delta_gate
};

struct GgufName {
  std::string name;  // Hugging Face's, empty unless it is one of the model's parameters; of experts with * for an expert's number
  GgufRole role = GgufRole::unknown;
  int64_t layer = -1;
};
GgufName hugging_face_name(const GgufArchitecture& architecture, std::string_view gguf_name);
// Converts the other way: "model.layers.0.mlp.up_proj.weight" → "blk.0.ffn_up.weight". Empty for a
// name that no file of the architecture has. The name of one expert gives that of all experts.
std::string gguf_name(const GgufArchitecture& architecture, std::string_view hugging_face_name);

// Returns 12 for "model.layers.0.mlp.experts.12.up_proj.weight"; −1 for a name without experts.
int64_t expert_number(std::string_view hugging_face_name);
// Returns the name of that expert: GgufName::name with the number.
std::string name_of_expert(std::string_view name, int64_t expert);

}  // namespace forge
