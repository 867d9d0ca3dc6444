#pragma once
// How the reference provider cuts a forward list: what lies between two cuts of the residual stream, half a layer in most families,
// is kept or computed again as a whole.
#include <vector>

#include "core/graph/recompute.h"

namespace forge {

// Ops [begin, end). It reads one value from before, the stream, and ends with the addition that makes the next one.
struct Segment {
  size_t begin = 0, end = 0;
  ValueId input = kNoValue, output = kNoValue;
  bool learns = false;       // one of its modules does
  bool kept = true;          // nothing of it is computed again
  bool keeps_output = true;  // its result is not
};

// The list between the embedding and the gathering of supervised rows.
std::vector<Segment> segments_of(const Graph& list, const Recomputed& again);
// The first op behind the embedding.
size_t first_layer_op(const Graph& list);
// The first that keeps anything for a backward: nothing below it is trained.
size_t lowest_segment(const Graph& list, const std::vector<Segment>& segments);

}  // namespace forge
