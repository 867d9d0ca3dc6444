#pragma once
// Family describes a model family: the settings that only it has, its decoder layer, and its names
// in the files of transformers and llama.cpp. A family has its own file, or one with its kin;
// families.cpp lists them.
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/recorder.h"
#include "core/model/families/model_spec.h"
#include "core/model/families/settings.h"
#include "kernels/attention/attention_op.h"

namespace forge {

struct Described;

// Names of the modules around the layers.
struct OuterModules {
  const char *embedding = "model.embed_tokens", *positions = "";  // positions: the learned table
  const char* layers = "model.layers.";
  const char *final_norm = "model.norm", *head = "lm_head";
  const char* stored_head = "";  // the head's name in checkpoints, if it is another
};

// Tensors whose presence in a GGUF says that the model has these biases and norms.
struct ToldByTensors {
  std::string qkv_bias = "model.layers.0.self_attn.q_proj.bias";
  std::string o_bias = "model.layers.0.self_attn.o_proj.bias";
  std::string mlp_bias = "model.layers.0.mlp.gate_proj.bias";
  std::string qk_norm = "model.layers.0.self_attn.q_norm.weight";
};

// A flag of config.json that sets members of the spec, all to one value.
using FlagMembers = std::array<bool ModelSpec::*, 3>;
struct FlagSetting {
  const char* key;
  bool absent;  // its value if config.json has none
  FlagMembers members;
};
constexpr FlagMembers kAttentionBiases{&ModelSpec::qkv_bias, &ModelSpec::o_bias};
constexpr FlagMembers kAllBiases{&ModelSpec::qkv_bias, &ModelSpec::o_bias, &ModelSpec::mlp_bias};
constexpr FlagSetting kAttentionBias{"attention_bias", false, kAttentionBiases};
constexpr FlagSetting kMlpBias{"mlp_bias", false, {&ModelSpec::mlp_bias}};

// x → mlp.{gate,up}_proj, silu(gate) · up, mlp.down_proj
ValueId gated_mlp(Recorder& g, const ModelSpec& m, ValueId x);

// Says which settings of experts the family's GGUF files have beside their number.
struct GgufExperts {
  int64_t gating = 1;    // expert_gating_func: 1 is a softmax over all experts, 2 is sigmoid
  bool weighted = false; // expert_weights_scale and expert_weights_norm
  bool counted = false;  // expert_shared_count: shared experts, each as wide as an expert
  bool leading = false;  // leading_dense_block_count: layers with an MLP before the first experts
  bool own_width = true; // expert_feed_forward_length; otherwise an expert is as wide as the MLP
};

struct Family {
  std::string name;                    // ModelSpec::family, and config.json's model_type
  std::string architecture;            // config.json: architectures[0]
  std::string gguf_architecture = {};  // general.architecture; empty: never read from a GGUF
  std::vector<std::string> wrapped_gguf = {};  // general.architecture inside classes with towers, where it is another
  bool mixture = false;           // has experts; tells families of one GGUF architecture apart
  bool gguf_windows = false;      // its GGUF files have a window; tells families apart, too
  // Defaults of the architecture's configuration class in transformers, for keys that config.json
  // lacks.
  int64_t max_position_embeddings = 0, num_kv_heads = 0;  // 0: as many as heads
  const char* activation = "silu";                        // hidden_act
  std::vector<std::string> same_activations = {};         // other words for it, or for another that `read` tells apart
  double norm_eps = 1e-6, rope_theta = 10000;
  double window_rope_theta = 0;  // base of layers with a window; 0: rope_theta
  bool scaled_base = false;  // dynamic scaling with an alpha is a larger base, for every length
  bool partial_rotary = false;   // reads partial_rotary_factor
  bool image_axes = false;       // rope settings may divide the frequencies among axes, which are one in a text
  bool proportional_rope = false;  // reads rope_type proportional
  bool query_growth = false;     // reads llama_4_scaling_beta among the rope settings
  double partial_rotary_factor = 1;
  bool tied = false;
  int64_t mlp_ratio = 0;  // default of intermediate_size / hidden_size; 0: none
  int64_t mlp_size = 0;   // default of intermediate_size; 0: none
  std::map<std::string, std::string> spelling = {};  // its own names of settings (Settings::spell)
  OuterModules modules = {};
  bool padding_row = true;          // the embedding's row of pad_token_id is never trained
  bool transposed_linears = false;  // files hold them transposed: transformers' Conv1D
  bool turned_experts = false;      // files hold joined experts [experts, out, in]
  // Ending of a tensor's name in files that hold each expert's matrices by themselves, where others
  // join them; empty: config.json says what files hold.
  std::string apart_ending = {};
  ToldByTensors told = {};
  const Described* described = nullptr;  // the file that it was made of (described_family.h)
  bool further_layers = false;  // files hold layers after the last, which predict further tokens
  // Endings of tensors' names in files, and the names of their modules.
  std::vector<std::pair<std::string, std::string>> stored_names = {};
  // Keys of config.json that its class in transformers does not read and its authors' own code
  // does.
  std::vector<std::string> own_keys = {};
  GgufExperts gguf_experts = {};
  std::vector<FlagSetting> flags = {};  // read before `read`, written before `write`
  // Reads the other settings that only this family has, and refuses those that it would have to
  // ignore; null: nothing more.
  std::function<void(Settings& settings, ModelSpec& spec)> read = nullptr;
  // Writes those settings into `config`; null: nothing more.
  std::function<void(const ModelSpec& spec, Json& config)> write = nullptr;
  // Reads those settings from a GGUF's metadata, after the sizes, biases and window; null: nothing
  // more.
  std::function<void(Settings& settings, ModelSpec& spec)> read_gguf = nullptr;
  // Records layer number `layer`: h [tokens, hidden] → [tokens, hidden]; null: llama_layer().
  std::function<ValueId(Recorder& g, const ModelSpec& m, int64_t layer, ValueId h)> layer = nullptr;
  // Records what layers read beside the stream (Recorder::layer_inputs), from the embedded tokens
  // h; null: nothing.
  void (*before_layers)(Recorder& g, const ModelSpec& m, ValueId h) = nullptr;
  // Records the MLP of llama_layer().
  ValueId (*mlp)(Recorder& g, const ModelSpec& m, ValueId x) = gated_mlp;
  // Records an encoder, and a decoder that attends to its output → the normed supervised rows
  // [targets, hidden]. Layers are numbered from the encoder's first to the decoder's last. It
  // replaces `layer` in a family that reads a source.
  ValueId (*stacks)(Recorder& g, const ModelSpec& m) = nullptr;
};

// The families of C++, one file each; those of described/ are in described_family.h.
namespace arcee { Family arcee_family(); }
namespace bart { Family bart_family(); }
namespace bloom { Family bloom_family(); }
namespace deepseek { Family deepseek_family(), deepseek_v2_family(), deepseek_v3_family(), glm4_moe_lite_family(), mistral4_family(), deepseek_v32_family(), glm_moe_dsa_family(); }
namespace ernie { Family ernie4_5_family(), ernie4_5_moe_family(); }
namespace exaone { Family exaone4_family(); }
namespace falcon { Family falcon_family(); }
namespace falcon_h1 { Family falcon_h1_family(); }
namespace gemma { Family gemma_family(), gemma2_family(), gemma3_family(); }
namespace gemma4 { Family gemma4_family(); }
namespace glm { Family glm_family(), glm4_family(), glm4_moe_family(), dots1_family(); }
namespace gpt2 { Family gpt2_family(); }
namespace gpt_neox { Family gpt_neox_family(); }
namespace gpt_oss { Family gpt_oss_family(); }
namespace gptj { Family gptj_family(); }
namespace granite { Family granite_family(), granitemoehybrid_family(), granitemoe_family(), granitemoeshared_family(); }
namespace hunyuan { Family hunyuan_v1_dense_family(), hunyuan_v1_moe_family(); }
namespace lfm2 { Family lfm2_family(), lfm2_moe_family(); }
namespace llama { Family llama_family(); }
namespace llama4 { Family llama4_family(); }
namespace minimax { Family minimax_m2_family(); }
namespace mistral { Family mistral_family(), ministral3_family(), mixtral_family(); }
namespace mpt { Family mpt_family(); }
namespace nemotron { Family nemotron_family(); }
namespace nemotron_h { Family nemotron_h_family(); }
namespace olmo { Family olmo_family(), olmo2_family(), olmo3_family(), olmoe_family(), flex_olmo_family(); }
namespace opt { Family opt_family(); }
namespace phi { Family phi_family(); }
namespace qwen { Family qwen2_family(), qwen3_family(), qwen2_moe_family(), qwen3_moe_family(); }
namespace qwen3_next { Family qwen3_next_family(), qwen3_5_family(), qwen3_5_moe_family(); }
namespace seed_oss { Family seed_oss_family(); }
namespace smollm3 { Family smollm3_family(); }
namespace t5 { Family t5_family(); }

const std::vector<Family>& families();

// Return the family by the name that a file uses. Throw Error(job) "unknown architecture X; forge
// knows …".
const Family& family_of_architecture(const std::string& architecture, const std::string& where);
// Properties of a GGUF that tell families of one architecture apart.
struct GgufKind {
  bool mixture = false;  // it counts experts
  bool windows = false;  // it has a sliding window
};
const Family& family_of_gguf(const std::string& architecture, GgufKind kind, const std::string& where);
// Returns the family of config.json's model_type; null if forge does not know it.
const Family* find_family(const Json& type);
// Returns the family of model.architecture. Throws Error(job) for an unknown one.
const Family& family_of_type(const Json& type);
// Returns the family of ModelSpec::family.
const Family& family_of(const ModelSpec& spec);

// Returns the modules around the layers under the names in this model's files: the family's, or
// those inside a class with towers.
const OuterModules& outer_modules(const ModelSpec& spec);

// ---- shared by several families ----

// Records a layer with norms before attention and before the family's MLP.
ValueId llama_layer(Recorder& g, const ModelSpec& m, const Family& family, int64_t layer, ValueId h);
Heads heads_of(const ModelSpec& m);
Heads heads_of(const ModelSpec& m, int64_t layer);
AttentionOptions attention_of(const ModelSpec& m, int64_t layer);

// Parts of layers, under the names that most checkpoints have.
ValueId norm(Recorder& g, const ModelSpec& m, ValueId x, const char* module);
// q, k → q, k: rotated by position if the layer has rotary positions.
std::array<ValueId, 2> turn(Recorder& g, const ModelSpec& m, int64_t layer, ValueId q, ValueId k);
// q, k, v → mixed: rotated by position if the layer has rotary positions, then attention.
ValueId attend(Recorder& g, const ModelSpec& m, int64_t layer, ValueId q, ValueId k, ValueId v);
// x → self_attn.{q,k,v}_proj
std::array<ValueId, 3> project_qkv(Recorder& g, const ModelSpec& m, ValueId x);
// x → self_attn.{q,k,v}_proj, norms of q and k, attention, self_attn.o_proj
ValueId self_attention(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x);
// Like self_attention(), with norms over all heads of q and of k at once.
ValueId wide_norm_attention(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x);
// A gated MLP's module, the width inside it, and the names of its layers.
struct GatedMlp {
  std::string module;
  int64_t size = 0;
  bool bias = false;
  GateKind kind = GateKind::silu;
  const char *gate = ".gate_proj", *up = ".up_proj", *down = ".down_proj";
};
// x → f(gate) · up, down
ValueId gated_mlp(Recorder& g, const ModelSpec& m, ValueId x, const GatedMlp& mlp);
// Like gated_mlp(), for gate and up in one matrix, mlp.gate_up_proj.
ValueId merged_gated_mlp(Recorder& g, const ModelSpec& m, ValueId x);
// x → f(in), out: an MLP without a gate
ValueId plain_mlp(Recorder& g, const ModelSpec& m, ValueId x, const std::string& in,
                  const std::string& out, ActivationKind kind);

// Names of the layers of an encoder-decoder's attention, after its module.
struct ProjectionNames {
  const char *q, *k, *v, *out;
};
// x → attention of `module`, with keys and values from `seen`, which may be x
ValueId attention_over(Recorder& g, const ModelSpec& m, const std::string& module,
                       const ProjectionNames& names, ValueId x, ValueId seen, Sight sight,
                       const PositionBias& bias = {});

// A family's names of its router and experts. An expert's layer is `experts`, its number, and
// `gate`, `up` or `down`.
struct ExpertNames {
  const char *router, *experts, *gate, *up, *down;
  LinearUse router_use = LinearUse::router;
  const char* correction = "";  // bias of the scores that choose experts
  int64_t correction_rows = 0;  // 1: files hold it as a matrix of one row
};
// Returns the rule by which the spec chooses experts: by softmax over all.
RouteRule route_rule(const ModelSpec& m);
// x → a router, f(gate) · up and down of each token's experts, their weighted sum
ValueId sparse_mlp(Recorder& g, const ModelSpec& m, ValueId x, const ExpertNames& names, const RouteRule& rule);
// Like sparse_mlp(), for experts that a file joins: `experts`gate_up_proj [experts, hidden, 2 ·
// size] has the gates before the values, and `experts`down_proj is [experts, size, hidden].
ValueId joined_sparse_mlp(Recorder& g, const ModelSpec& m, ValueId x, const char* router, const std::string& experts, const RouteRule& rule);
// Reads num_experts_per_tok, which may not be more than num_experts.
void read_per_token(Settings& settings, ModelSpec& spec, std::optional<int64_t> per_token);
// Reads num_experts_per_tok, and the router's loss where transformers computes it; `coefficient` is
// the default of its factor. num_experts must be read before.
void read_router(Settings& settings, ModelSpec& spec, int64_t per_token,
                 double coefficient = 0.001);
// Reads num_experts_per_tok of a router with a correction, whose loss forge does not compute:
// transformers counts the experts that it would choose without the correction.
void read_corrected_router(Settings& settings, ModelSpec& spec, int64_t per_token);
void write_router(const ModelSpec& spec, Json& config);

// Qwen's mixtures (qwen.cpp): experts beside one for every token with a gate of its own, or an MLP
// in layers without experts.
namespace qwen {
struct MixtureSizes {
  int64_t experts, per_token, size, shared_size;  // if config.json does not say
};
void read_mixture(Settings& settings, ModelSpec& spec, const MixtureSizes& absent);
void write_mixture(const ModelSpec& spec, Json& config);
ValueId mlp(Recorder& g, const ModelSpec& m, int64_t layer, ValueId x);
}  // namespace qwen

// Returns sliding_window: `absent` if the key is missing, 0 for null.
int64_t window_setting(Settings& settings, int64_t absent);
// Sets the window and the layers with full attention, as read_layer_types() does; none without
// `full`.
void read_windows(Settings& settings, ModelSpec& spec, int64_t absent_window,
                  const std::function<bool(int64_t layer)>& full = [](int64_t) { return false; });
// Set the window, and the layers with full attention: those that the file lists, else every
// `period`-th layer. `absent_window` is the window if the file states none.
void read_periodic_windows(Settings& settings, ModelSpec& spec, int64_t absent_window, int64_t period);
void set_periodic_windows(Settings& settings, ModelSpec& spec, int64_t absent_window, int64_t period);
// Write sliding_window, null if there is none; and layer_types with it.
void write_window(const ModelSpec& spec, Json& config);
void write_layer_types(const ModelSpec& spec, Json& config);
void write_windows(const ModelSpec& spec, Json& config);
// Refuses the window of a GGUF that does not say which layers it is for.
void refuse_window(Settings& settings, ModelSpec& spec);
// Sets the layers with full attention: those that layer_types lists, else those for which `full` is
// true. The others have spec.sliding_window.
void read_layer_types(Settings& settings, ModelSpec& spec, const std::function<bool(int64_t layer)>& full);

}  // namespace forge
