#pragma once
// Divides the forward list of the reference provider into segments: the ops between two cuts of the
// residual stream, half a layer in most families, are kept or recomputed as a whole.
#include <vector>

#include "core/model/graph/recompute.h"

namespace forge {

// Ops [begin, end). A segment reads one value from before, the stream, and ends with the addition
// that makes the next one; an encoder's last segment ends with the value that its decoder reads.
struct Segment {
  size_t begin = 0, end = 0;
  size_t stem = 0;  // ops before `begin` that embed its input, of the first one of an encoder or a decoder; else 0
  ValueId input = kNoValue, output = kNoValue;
  ValueId source = kNoValue;  // the encoder's result, if it reads that too
  bool learns = false;        // one of its modules does
  bool kept = true;           // nothing of it is computed again
  bool keeps_output = true;   // its result is not

  bool first() const { return stem > 0; }
};

// Divides the list from the embedding to the gathering of supervised rows.
std::vector<Segment> segments_of(const Graph& list, const Recomputed& again);
// Returns the first segment that keeps anything for a backward: nothing below it is trained.
size_t lowest_segment(const Graph& list, const std::vector<Segment>& segments);

}  // namespace forge
