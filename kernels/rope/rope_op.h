#pragma once
// Rotations of q and k in a list.
#include "core/graph/op_record.h"
#include "core/graph/recorder.h"

namespace forge {

namespace ops {
// x, y → x, y: rotated in place; y may be absent.
extern const OpRecord rope;
// d x, d y → d x, d y.
extern const OpRecord rope_backward;
}  // namespace ops

struct RopeOptions {
  bool interleaved = false, window_angles = false;
  bool grown_queries = false;  // q also grows with its position (ModelSpec::query_growth)
};
// Turns q and k by their positions' angles; both are overwritten.
std::array<ValueId, 2> rope(Recorder& g, ValueId q, ValueId k, const Heads& heads, const RopeOptions& options);

// Turns q alone, which is overwritten.
ValueId rope(Recorder& g, ValueId q, const Heads& heads, const RopeOptions& options);

// Multiplies q, which nothing turns, by what it grows by at its position; it is overwritten.
ValueId grow_queries(Recorder& g, ValueId q, const Heads& heads);

}  // namespace forge
