#pragma once
// Records a forward list that reads like the formulas of a layer:
//
//   ValueId x = g.norm(h, "input_layernorm", eps);
//   auto [q, k, v] = g.linear(x, {{"self_attn.q_proj", 576}, {"self_attn.k_proj", 192}, {"self_attn.v_proj", 192}});
//
// Module names are those of the checkpoint, below the prefix in force ("model.layers.3."); the
// modules of the model are those that its list names, with these sizes. Values are [tokens, width]
// until `gather` leaves the supervised positions.
#include <array>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/graph/graph.h"

namespace forge {

enum class TrainedBiases { none, adapted, all };  // of no module, of those with adapters, of every one

// Modules that a run trains, by path.
struct ModuleTraining {
  bool all = false;                      // every weight
  std::set<std::string> whole;           // these weights
  TrainedBiases biases = TrainedBiases::none;
  struct Adapter {
    int64_t rank = 0;
    std::string name;  // of its module, in files; empty: the path
  };
  std::unordered_map<std::string, Adapter> adapters;
  bool dora = false;                     // which have a magnitude too
  bool dropout = false;                  // and a mask before them
  bool fp8 = false;                      // other linear layers multiply in 8 bits
  std::set<std::string> wide = {};       // but for these
};

// A linear layer's name, its output features, and whether it has a bias.
struct LinearShape {
  const char* module;
  int64_t out = 0;
  bool bias = false;
  LinearUse use = LinearUse::layer;
};

class Recorder {
 public:
  // `stream`: the type of the residual stream: of embeddings, of their sums with what layers add,
  // and of what a stream_norm gives.
  explicit Recorder(ModuleTraining training = {}, ValueType stream = ValueType::compute);

  void enter_layer(int64_t layer, const std::string& prefix);
  void leave_layer();

  // Looks up rows of a table. The gradient of the table leaves `frozen_row` out; −1: none.
  ValueId embed(const std::string& module, int64_t vocabulary, int64_t hidden, double scale = 1,
                int64_t frozen_row = -1, Rows rows = Rows::tokens);
  // Looks up learned positions: row p + offset of the table at position p of a sequence.
  ValueId embed_positions(const std::string& module, int64_t positions, int64_t hidden, int64_t offset = 0,
                          Rows rows = Rows::tokens);
  // A bias of each head by distance (Raffel et al., "Exploring the limits of transfer learning",
  // 2020), which the attention of many layers reads: [buckets, heads].
  struct PositionBias {
    int32_t module = -1;   // none
    int64_t distance = 0;  // from which on all count alike
  };
  PositionBias position_bias(const std::string& module, int64_t buckets, int64_t heads, int64_t distance);
  ValueId norm(ValueId x, const std::string& module, double eps, double weight_offset = 0);
  // Like norm(), over each head of x by itself; all heads have one weight [head_dim].
  ValueId head_norm(ValueId x, const std::string& module, int64_t head_dim, double eps,
                    double weight_offset = 0);
  // Subtracts the mean of x and divides by its deviation. `bias`: the module has a bias.
  ValueId layer_norm(ValueId x, const std::string& module, double eps, bool bias);
  // Like layer_norm(), with the stream itself as the result: for layers that norm after their
  // additions.
  ValueId stream_norm(ValueId x, const std::string& module, double eps, bool bias);
  ValueId add(ValueId a, ValueId b);
  // Returns factor · x, which overwrites x.
  ValueId scale(ValueId x, double factor);
  // Passes x through modules that read the same input. Their results are side by side, and one
  // product makes them if their weights are too.
  template <size_t N>
  std::array<ValueId, N> linear(ValueId x, const LinearShape (&modules)[N]) {
    return first<N>(linear_all(x, {modules, modules + N}));
  }
  ValueId linear(ValueId x, const LinearShape& module) { return linear_all(x, {module})[0]; }
  // Returns columns of x, from the first on.
  template <size_t N>
  std::array<ValueId, N> split(ValueId x, const int64_t (&widths)[N]) {
    return first<N>(split_all(x, {widths, widths + N}));
  }

  struct Heads {
    int64_t heads = 0, kv_heads = 0, head_dim = 0;
  };
  struct RopeOptions {
    bool interleaved = false, window_angles = false;
  };
  // Turns q and k by their positions' angles; both are overwritten.
  std::array<ValueId, 2> rope(ValueId q, ValueId k, const Heads& heads, const RopeOptions& options);
  struct AttentionOptions {
    double scale = 1, softcap = 0;
    int64_t window = 0;
    const char* sinks = "";  // the vector with a logit for each head
    Sight sight = Sight::causal;
    PositionBias bias = {};
  };
  ValueId attention(ValueId q, ValueId k, ValueId v, const Heads& heads, const AttentionOptions& options);
  // Returns heads of q, of k and of v from x, where they are group by group: the heads of q that
  // share one of k and v, then those two.
  std::array<ValueId, 3> regroup(ValueId x, const Heads& heads);
  // Heads of latent attention (DeepSeek-V2). Inputs: q [·, heads · head_dim];
  // kv [·, heads · (head_dim − rope_dim + value_dim)], features that are not turned and values;
  // key [·, rope_dim]. Results: heads of head_dim features, those to turn first. Values are filled
  // up with zeros.
  struct LatentHeads {
    int64_t heads = 0, head_dim = 0, rope_dim = 0, value_dim = 0;
  };
  std::array<ValueId, 3> latent_heads(ValueId q, ValueId kv, ValueId key, const LatentHeads& heads);
  // Returns x without what values were filled up with.
  ValueId trim_heads(ValueId x, const LatentHeads& heads);
  ValueId glu(ValueId gate, ValueId up, GateKind kind);
  // Columns 2i of `pairs` are gates, 2i + 1 what they let through.
  ValueId clamped_glu(ValueId pairs, double limit, double alpha);
  ValueId activation(ValueId x, ActivationKind kind);
  // Returns sigmoid(gate) · x, one gate [·, 1] for a whole row.
  ValueId gate_rows(ValueId x, ValueId gate);

  // Experts of each token. Rows of experts are [tokens, per_token · width]: the tokens' rows one
  // after the other, sorted by expert.
  struct Routing {
    ValueId weights = kNoValue, order = kNoValue, ends = kNoValue;
    int64_t experts = 0;
    RouteRule rule;
  };
  // `correction`: a constant vector [experts] that is added to the scores where experts are chosen;
  // "": none.
  Routing route(ValueId logits, const RouteRule& rule, const char* correction = "");
  ValueId dispatch(ValueId x, const Routing& routing);
  // Multiplies by modules "before" + expert + "after"; rows of experts → rows of experts.
  ValueId expert_linear(ValueId rows, const Routing& routing, const std::string& before, const std::string& after, int64_t out);
  // Like expert_linear(), by one module that holds all experts.
  ValueId joined_expert_linear(ValueId rows, const Routing& routing, const char* module, int64_t out, bool bias);
  ValueId combine(ValueId rows, const Routing& routing);
  ValueId gather(ValueId h);
  // Ends a step: makes what objectives take from the head, with the gradient of its input; or, for
  // an evaluation, without.
  void head(ValueId rows, const std::string& module, int64_t vocabulary, double softcap, bool fused, bool training);

  Graph take() { return std::move(graph_); }

 private:
  template <size_t N>
  static std::array<ValueId, N> first(const std::vector<ValueId>& all) {
    std::array<ValueId, N> result;
    for (size_t i = 0; i < N; ++i) result[i] = all[i];
    return result;
  }
  std::vector<ValueId> linear_all(ValueId x, const std::vector<LinearShape>& shapes);
  ValueId layer_norm_as(ValueType type, ValueId x, const std::string& module, double eps, bool bias);
  ValueId in_compute_type(ValueId x);
  std::vector<ValueId> columns(ValueId whole, const std::vector<int32_t>& modules,
                               const std::string& suffix = "");
  ValueId rescaled(ValueId x, const std::string& name, const std::vector<int32_t>& modules);
  std::vector<ValueId> split_all(ValueId x, const std::vector<int64_t>& widths);
  int32_t module_at(const std::string& name, ModuleKind kind, int64_t in, int64_t out, bool bias = false);
  ModuleUse& use_at(int32_t module) { return graph_.modules[static_cast<size_t>(module)]; }
  std::string name(const std::string& part) const;
  ValueId like(const std::string& part, ValueId other, int64_t width, ValueType type = ValueType::compute);
  Op& push(OpKind kind, std::vector<ValueId> in, std::vector<ValueId> out, std::vector<int32_t> modules = {});

  ModuleTraining training_;
  ValueType stream_;
  Graph graph_;
  std::unordered_map<std::string, int32_t> index_;  // of modules, by path
  std::string prefix_;
  int64_t layer_ = -1;
};

}  // namespace forge
