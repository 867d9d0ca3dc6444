#pragma once
// Ops of a list over whole rows: copies of supervised ones, sums, casts and factors.
#include "core/graph/op_record.h"
#include "core/graph/recorder.h"
#include "kernels/call/call.h"
#include "kernels/rows/rows_args.h"

namespace forge {

namespace ops {
// h [tokens] → rows [targets]: those of supervised positions.
extern const OpRecord gather;
// d rows → d h: zeros where nothing is supervised.
extern const OpRecord scatter;
// a, b → a + b, in b's place where they have one type; else in fp32 and its own.
extern const OpRecord add;
// d x, more → d x, in the first one's place.
extern const OpRecord add_gradient;
// x → x in the other type: of what reads the stream, or its gradient, in the compute type.
extern const OpRecord cast;
// d y[, d x] → d x in the type of x; added to a given d x.
extern const OpRecord cast_backward;
// x → c x, in place.
extern const OpRecord scale;
// d y[, d x] → d x = c d y; added to a given d x.
extern const OpRecord scale_backward;
}  // namespace ops

// Returns a + b. The stream, which may be fp32, comes first.
ValueId add(Recorder& g, ValueId a, ValueId b);
// Returns factor · x, which overwrites x.
ValueId scale(Recorder& g, ValueId x, double factor);
// Returns x in the type that products read.
ValueId in_compute_type(Recorder& g, ValueId x);
// Leaves the supervised positions.
ValueId gather(Recorder& g, ValueId h);

namespace bind {
CopyRows copy(const Call& c, int64_t rows, const Part& from, const Part& to);
}  // namespace bind

}  // namespace forge
