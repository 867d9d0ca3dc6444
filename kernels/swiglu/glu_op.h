#pragma once
// Gated activations in a list.
#include "core/graph/op_record.h"
#include "core/graph/recorder.h"

namespace forge {

namespace ops {
// gate, up → f(gate) · up; or of one input whose columns 2i and 2i + 1 are a pair, or whose columns
// are in turn `gate_half` gates and as many values.
extern const OpRecord glu;
// d y, gate, up → d gate, d up[, y], in the places of gate and up; of one input likewise. With a
// sigmoid both have places of their own: attention's backward reads its result again.
extern const OpRecord glu_backward;
}  // namespace ops

ValueId glu(Recorder& g, ValueId gate, ValueId up, GateKind kind);
// The columns of `joined` are gates and the values that they let through, in turn `half` of each.
ValueId halves_glu(Recorder& g, ValueId joined, int64_t half, GateKind kind);
// Columns 2i of `pairs` are gates, 2i + 1 what they let through.
ValueId clamped_glu(Recorder& g, ValueId pairs, double limit, double alpha);

}  // namespace forge
