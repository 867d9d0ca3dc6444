#pragma once
// Which values a step keeps for its backward, and which it computes again.
//
//   Recomputed again = recomputed_by(forward, Checkpointing::selective);          // a fixed choice
//   std::vector<RecomputeUnit> units = recompute_units(forward, sizes, length);   // or one by one, cheapest first
//   again.add(units[0]);
//   KeptValues kept = kept_values(forward, again);
//
// Norms and activations cost a pass over memory and no product: they are computed again, but for norms where they are wanted kept. A layer's result is always
// kept, and so is everything around the layers. What lies between is a group: the values that one op makes or that share memory,
// named by its first one ("gate_proj+up_proj", "mixed"), and kept or computed again as a whole.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/config/job.h"
#include "core/graph/backward.h"

namespace forge {

// What can be given up by itself, what it costs to compute again, and what is saved.
struct RecomputeUnit {
  std::vector<std::string> groups;
  int64_t layer = 0;
  double flops = 0;  // as dear as those of products: attention's count more
  int64_t bytes = 0;
};

// The layers in which each group is computed again.
struct Recomputed {
  std::map<std::string, std::set<int64_t>> layers;  // by group

  void add(const std::string& group, int64_t layer) { layers[group].insert(layer); }
  void add(const RecomputeUnit& unit);
  bool has(const std::string& group, int64_t layer) const;
  bool operator==(const Recomputed& other) const { return layers == other.layers; }
};

//   none       keeps every group,
//   selective  computes the inputs of the activation again: the widest values of a layer, and no attention,
//   full       computes all of them again.
Recomputed recomputed_by(const Graph& forward, Checkpointing policy);

// In the order of FLOPs a byte, in lower layers first: nothing is saved at the fullest moment in the highest one, whose backward
// comes at once. Layers below the lowest that learns are left out, since nothing of them is kept. `mean_length`: tokens of a
// sequence. `whole_segments`: a unit is everything between two cuts of the stream, for a provider that can only recompute
// all of it.
std::vector<RecomputeUnit> recompute_units(const Graph& forward, const StepSizes& sizes, double mean_length,
                                           bool whole_segments);

// By op of the forward list: whether it adds to the stream and nothing else made so far is read after it, so that the list can be
// cut there, but for what an encoder made, which a decoder reads in every layer. Parallel branches end in one such addition.
std::vector<bool> stream_cuts(const Graph& forward);

KeptValues kept_values(const Graph& forward, const Recomputed& again, bool norms = false);

// The stream as each layer finds it, in their order: kept whatever is computed again.
std::vector<ValueId> layer_inputs(const Graph& forward);

// Of each op of the forward list, whether what it makes is computed again.
std::vector<bool> computed_again(const Graph& forward, const Recomputed& again);

// "gate_proj+up_proj in layers 0-11, mixed in layer 3", or "nothing".
std::string describe(const Recomputed& again);
// {2, 3, 4, 7} ↔ "2-4,7"; nothing where it reads otherwise.
std::string layer_ranges(const std::set<int64_t>& layers);
std::optional<std::set<int64_t>> layers_of(const std::string& ranges);

}  // namespace forge
