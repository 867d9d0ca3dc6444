#pragma once
// Selects the values that a step keeps for its backward, and those that it computes again.
//
//   Recomputed again = recomputed_by(forward, Checkpointing::selective);          // a fixed choice
//   std::vector<RecomputeUnit> units = recompute_units(forward, sizes, length);   // or one by one, cheapest first
//   again.add(units[0]);
//   KeptValues kept = kept_values(forward, again);
//
// Norms and activations cost a pass over memory and no product: they are computed again, except for
// norms where they are wanted kept. A layer's result is always kept, and so is everything around
// the layers. All else forms groups. A group is the values that one op makes or that share memory.
// It is named by its first value ("gate_proj+up_proj", "mixed"), and kept or computed again as a
// whole.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/job/job.h"
#include "core/model/graph/backward.h"

namespace forge {

// Values that can be given up by themselves, the cost of computing them again, and the bytes saved.
struct RecomputeUnit {
  std::string group;
  int64_t layer = 0;
  // Counted in FLOPs of products: attention's count more.
  double flops = 0;
  int64_t bytes = 0;
};

// The layers in which each group is computed again.
struct Recomputed {
  std::map<std::string, std::set<int64_t>> layers;  // by group

  void add(const std::string& group, int64_t layer) { layers[group].insert(layer); }
  void add(const RecomputeUnit& unit) { add(unit.group, unit.layer); }
  bool has(const std::string& group, int64_t layer) const;
  bool operator==(const Recomputed& other) const { return layers == other.layers; }
};

//   none       keeps every group,
//   selective  computes the inputs of the activation again: the widest values of a layer, and no attention,
//   full       computes all of them again.
Recomputed recomputed_by(const Graph& forward, Checkpointing policy);

// Returns units in the order of FLOPs a byte, those in lower layers first. At the fullest moment
// nothing is saved in the highest layer, whose backward comes at once. Layers below the lowest that
// learns are left out, since nothing of them is kept. `mean_length`: tokens of a sequence.
std::vector<RecomputeUnit> recompute_units(const Graph& forward, const StepSizes& sizes, double mean_length);

KeptValues kept_values(const Graph& forward, const Recomputed& again, bool norms = false);

// Returns the stream as each layer finds it, in their order. It is kept whatever is computed again.
std::vector<ValueId> layer_inputs(const Graph& forward);

// Returns, for each op of the forward list, true if its results are computed again.
std::vector<bool> computed_again(const Graph& forward, const Recomputed& again);

// Returns "gate_proj+up_proj in layers 0-11, mixed in layer 3", or "nothing".
std::string describe(const Recomputed& again);
// Convert {2, 3, 4, 7} to "2-4,7" and back. layers_of() returns nothing for any other text.
std::string layer_ranges(const std::set<int64_t>& layers);
std::optional<std::set<int64_t>> layers_of(const std::string& ranges);

}  // namespace forge
