#pragma once
// Records a forward list that reads like the formulas of a layer:
//
//   ValueId x = norm(g, h, "input_layernorm", eps);
//   auto [q, k, v] = linear(g, x, {{"self_attn.q_proj", 576}, {"self_attn.k_proj", 192}, {"self_attn.v_proj", 192}});
//
// An op's formula is a function beside its record (kernels/*/*_op.h), made of what is here.
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

// Modules of a list for the experts of a layer: one for each expert, as an engine binds weights to
// them, or a row for those that are equal (ModuleUse::copies), as a plan counts them.
enum class Experts { one_by_one, in_rows };

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
  Experts experts = Experts::one_by_one;
  // Rows whose experts are recorded one by one, since they train differently; by the first one's
  // path.
  std::set<std::string> apart = {};
};

// Heads of queries, and of the keys and values that some of them share.
struct Heads {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
};

// Returns "q_proj" for "self_attn.q_proj".
inline std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

class Recorder {
 public:
  // `stream`: the type of the residual stream: of embeddings, of their sums with what layers add,
  // and of what a stream_norm gives.
  explicit Recorder(ModuleTraining training = {}, ValueType stream = ValueType::compute) : training(std::move(training)), stream(stream) {}

  void enter_layer(int64_t layer, const std::string& prefix);
  void leave_layer() { enter_layer(-1, ""); }

  // Returns columns of x, from the first on.
  template <size_t N>
  std::array<ValueId, N> split(ValueId x, const int64_t (&widths)[N]) {
    return first<N>(split(x, std::vector<int64_t>(widths, widths + N)));
  }

  std::vector<ValueId> split(ValueId x, const std::vector<int64_t>& widths);

  Graph take() { return std::move(graph); }

  // ---- for the ops

  Graph graph;
  const ModuleTraining training;
  const ValueType stream;
  std::vector<ValueId> layer_inputs;  // by layer: what it reads beside the stream; empty: nothing

  // Returns the number of a module of the list, which is added if it is new.
  int32_t module_at(const std::string& name, ModuleKind kind, int64_t in, int64_t out, bool bias = false);
  // Returns the numbers of the experts' modules, whose names have the expert's number between
  // `before` and `after`: of one row, or of as many modules.
  std::vector<int32_t> experts_at(const std::string& before, const std::string& after,
                                  int64_t experts, int64_t in, int64_t out);
  ModuleUse& use_at(int32_t module) { return graph.modules[static_cast<size_t>(module)]; }
  // Returns the name of a value in the layer at hand.
  std::string name(const std::string& part) const;
  // Adds a value with the rows of another.
  ValueId like(const std::string& part, ValueId other, int64_t width, ValueType type = ValueType::compute);
  // Adds a value in the place of another.
  ValueId over(const std::string& name, ValueId other);
  Op& push(OpKind kind, std::vector<ValueId> in, std::vector<ValueId> out, std::vector<int32_t> modules = {});
  // Returns what the last op made for each module, side by side in `whole`.
  std::vector<ValueId> columns(ValueId whole, const std::vector<int32_t>& modules, const std::string& suffix = "");

  template <size_t N>
  static std::array<ValueId, N> first(const std::vector<ValueId>& all) {
    std::array<ValueId, N> result;
    for (size_t i = 0; i < N; ++i) result[i] = all[i];
    return result;
  }

 private:
  std::unordered_map<std::string, int32_t> index_;  // of modules, by path
  std::string prefix_;
  int64_t layer_ = -1;
};

}  // namespace forge
