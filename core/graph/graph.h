#pragma once
// A training step as data: values, and the ops between them in the order in which they run.
//
//   Graph step = training_step(spec, modules, keep);       // core/model/families/step.h
//   Layout layout = lay_out(step, sizes, workspace);       // layout.h
//   print(step, sizes, length, &layout)                    // core/model/graph/print.h: `forge plan --graph`
//
// A family records its forward list (recorder.h). Everything else is read from it:
// the backward list and what is recomputed (gradients.h), lifetimes and offsets (layout.h), FLOPs
// and bytes (op_record.h). Knows neither tensors nor devices, and no kind of op.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/route_rule.h"

namespace forge {

using ValueId = int32_t;
constexpr ValueId kNoValue = -1;

// Rows of a value in a micro-batch: one for each of its tokens, or of its supervised positions; or
// one row, which weights alone decide. In an encoder-decoder the tokens are the decoder's, and an
// encoder reads those of the source.
enum class Rows { tokens, targets, one, source };
// Type of a value: the run's compute type, or fp32 whatever that is.
enum class ValueType { compute, fp32 };

// A piece of memory, [rows, width] without gaps.
struct Buffer {
  Rows rows = Rows::tokens;
  int64_t width = 0;
  ValueType type = ValueType::compute;
};

// Operand or result of an op: some columns of a buffer, all rows. Several values may share a
// buffer: q, k and v side by side, or a result written over what it was computed from.
struct Value {
  std::string name;  // "layers.3.q"
  int32_t buffer = 0;
  int64_t column = 0, width = 0;
  std::vector<ValueId> of;  // what it consists of, where no op writes it as a whole
};

// A vector is a parameter [out] under the module's own name, or a matrix [in, out] if it has an
// `in`; a filter is one for each channel, out, of `in` taps: [out, 1, in]; experts are all of a
// layer's matrices in one tensor of that name, [experts, in, out] or, as out_first says, [experts,
// out, in], with biases [experts, out].
enum class ModuleKind { embedding, norm, linear, head, vector, experts, filter };

// Purpose of a linear layer. Routers keep their precision; one that is a bare parameter in
// transformers is no layer to PEFT. transformers 4 quantised routers with every other linear layer;
// transformers 5 makes them bare parameters, which bitsandbytes leaves alone. turned_experts are
// joined experts whose inputs PEFT takes for outputs (Llama 4): its A and B change places.
enum class LinearUse { layer, router, bare_router, turned_experts };

// First values of a weight that is drawn: by the rule of its kind; ones; or logarithms of numbers
// between 0.01 and 16, which are the rates of a delta rule's decays.
enum class FirstValues { usual, ones, log_rates };

// A module with weights, and what of it is trained; or a row of modules that are equal but for a
// number in their names, as those of a layer's experts are.
struct ModuleUse {
  std::string path;  // "model.layers.3.self_attn.q_proj"
  ModuleKind kind = ModuleKind::linear;
  int64_t layer = -1;
  int64_t in = 0, out = 0;  // a norm: out is its width; the embedding: in hidden, out vocabulary
  bool bias = false;
  LinearUse use = LinearUse::layer;
  int64_t experts = 0;    // in one tensor
  bool out_first = false; // experts: a matrix is [out, in], as a linear layer's
  bool constant = false;  // never trained
  FirstValues first = FirstValues::usual;
  int64_t rank = 0;      // of its adapter; 0: none
  std::string adapter;   // what that is called; empty: as the path
  bool dora = false;     // which has a magnitude
  bool dropout = false;  // before that
  bool trained = false;  // weight and bias themselves
  bool bias_trained = false;  // the bias alone, or beside an adapter
  bool fp8 = false;  // frozen in E4M3, and multiplied so (kernels/fp8)
  int64_t copies = 1;  // modules of the row; `path` is the first one's
  size_t number = 0;   // place of their number in `path`, which is 0 there

  // Returns the path of one module of the row, counted from 0.
  std::string path_of(int64_t copy) const;
  bool adapted() const { return rank > 0; }
  // True if weight or bias are trained.
  bool trains() const { return trained || bias_trained; }
  // True if its backward has gradients of its own.
  bool learns() const { return trains() || adapted(); }
};

// A kind of op is known by its record, which is in its folder (op_record.h, kernels/*/*_op.h).
struct OpRecord;
using OpKind = const OpRecord*;

// clamped: gpt-oss's, (min(max(up, −limit), limit) + 1) · g σ(alpha g) with g = min(gate, limit)
// product: the gate multiplies as it is.
enum class GateKind { silu, gelu_tanh, clamped, sigmoid, product };
enum class ActivationKind { gelu, gelu_tanh, relu, relu2, clamp };

// Tokens that a query sees: those up to its own; all of its own text, in an encoder; or what the
// encoder made of its text's source.
enum class Sight { causal, whole, source };

// Widths of parts of a row, side by side, and a factor for each.
using PartFactors = std::vector<std::pair<int64_t, double>>;

// Numbers of an op; those its kind does not name keep their defaults.
struct Attributes {
  double eps = 0, weight_offset = 0;              // norm, layer_norm
  double scale = 1, softcap = 0;                  // attention, embed, scale (scale), head (softcap)
  int64_t heads = 0, kv_heads = 0, head_dim = 0;  // attention, rope, regroup, latent_heads, trim_heads, split_groups; norm: head_dim
  int64_t rope_dim = 0, value_dim = 0;            // latent_heads, trim_heads: features of a head that are turned, and of its values
  int64_t frozen_row = -1;                        // embed: gets no gradient; −1: none
  bool by_position = false;                       // embed: a row for each position, not for each token
  int64_t position_offset = 0;                    // embed, by_position: the row of position 0
  int64_t window = 0;                             // attention: tokens back that are seen; 0: all
  int64_t chunk = 0;                              // attention: texts are cut into chunks of so many tokens, which see themselves; 0: not
  Sight sight = Sight::causal;                    // attention
  int64_t position_distance = 0;                  // attention, with a bias by position: tokens apart that count alike; 0: no bias
  bool alibi = false;                             // attention: scores grow with the keys' positions
  bool interleaved = false;                       // rope: features 2i and 2i + 1 are a pair, not the halves' i-th
  bool window_angles = false;                     // rope: by ModelSpec::window_rope
  bool grown_queries = false;                     // rope: q by the tables of ModelSpec::query_growth
  int64_t key_dim = 0;                            // delta_rule: features of a head of q and k; with heads, kv_heads (of q and k), value_dim
  double least_step = 0;                          // step_gates
  std::shared_ptr<const PartFactors> factors;     // scale_parts
  bool head_weights = false;                      // norm: each head has weights of its own
  bool silu = false;                              // short_conv: follows
  GateKind gate = GateKind::silu;
  double gate_limit = 0, gate_alpha = 1;          // glu, clamped
  int64_t gate_half = 0;                          // glu of one input: so many gates, then as many values; 0: gate and up are inputs
  ActivationKind activation = ActivationKind::gelu;
  double limit = 0;                               // activation, clamp
  RouteRule route;                                // route, dispatch, expert_linear, combine
  bool fused_head = false;  // head, evaluate: by kernels/lm_head, without logits
  bool accumulate = false;  // adds to its last input instead of writing; in its place, but for a linear
  bool unscaled = false;    // linear: a dora op follows, which adds the bias too
  bool folded = false;      // linear, linear_input_gradient: its adapters run on in the product (fold_adapters.h)
  int64_t elements = 0, bytes = 0;  // gradient_norm, update: trained numbers, and the bytes read and written
  int64_t slot = 0;                 // store, stored, load, loaded: which copy
};

struct Op {
  OpKind kind = nullptr;
  int64_t layer = -1;  // of the decoder, or −1 around it
  std::vector<ValueId> in, out;
  std::vector<int32_t> modules;
  std::vector<ValueId> parts;  // of a linear: what each module makes of its result
  Attributes attributes;

  bool reads(ValueId value) const { return std::find(in.begin(), in.end(), value) != in.end(); }
};

struct Graph {
  std::vector<Buffer> buffers;
  std::vector<Value> values;
  std::vector<ModuleUse> modules;
  std::vector<Op> ops;
  // The op that computed a forward value, for recomputation and gradients; −1 for other values.
  std::vector<int32_t> producers;
  size_t forward_ops = 0;      // ops[0 … forward_ops) are the forward list
  size_t micro_batch_ops = 0;  // those before it run in each micro-batch, the rest once a step

  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  const Buffer& buffer_of(ValueId id) const { return buffers[static_cast<size_t>(value(id).buffer)]; }
  const ModuleUse& module(const Op& op, size_t i = 0) const {
    return modules[static_cast<size_t>(op.modules[i])];
  }

  int32_t add_buffer(const Buffer& buffer);
  // Adds a value in columns of an existing buffer.
  ValueId add_value(std::string name, int32_t buffer, int64_t column, int64_t width);
  // Adds a value with a buffer of its own.
  ValueId new_value(std::string name, Rows rows, int64_t width, ValueType type = ValueType::compute);
};

// The micro-batch that a step is laid out for: the most tokens and supervised positions it may
// have.
struct StepSizes {
  int64_t tokens = 0, targets = 0;
  int64_t compute_bytes = 4;  // of one element of the compute type
  int64_t threads = 1;        // workspaces on a CPU have a part for each
  bool gpu = false;           // workspaces are those of a GPU's kernels
  int64_t source = 0;         // tokens that an encoder reads
  // Multiprocessors of the GPU, which its kernels' grids fill; a large GPU's where nobody has said.
  int64_t multiprocessors = 128;
  int64_t capability = 80;     // the GPU's, which decides whose attention runs: 86 is 8.6
  bool deterministic = false;  // a GPU's results are the same each time, bit for bit
  bool aten = false;           // every op runs in ATen (providers/aten)

  int64_t rows(Rows kind) const {
    return kind == Rows::tokens ? tokens : kind == Rows::targets ? targets : kind == Rows::source ? source : 1;
  }
  int64_t element(ValueType type) const { return type == ValueType::compute ? compute_bytes : 4; }
};

}  // namespace forge
