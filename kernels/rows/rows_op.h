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
// x → x in the other type: of what reads the stream, or its gradient, in the compute type; or of
// what begins the stream.
extern const OpRecord cast;
// d y[, d x] → d x in the type of x; added to a given d x.
extern const OpRecord cast_backward;
// x → c x, in place; c is a number of the op or, with a module, of the model's file.
extern const OpRecord scale;
// d y[, d x] → d x = c d y; added to a given d x.
extern const OpRecord scale_backward;
// x → x with a factor for each part of it, in place.
extern const OpRecord scale_parts;
extern const OpRecord scale_parts_backward;
}  // namespace ops

// Returns a + b. The stream, which may be fp32, comes first.
ValueId add(Recorder& g, ValueId a, ValueId b);
// Returns factor · x, which overwrites x.
ValueId scale(Recorder& g, ValueId x, double factor);
// Returns x, which is overwritten, with each part multiplied by its factor; the parts are all of
// it.
ValueId scale_parts(Recorder& g, ValueId x, const PartFactors& factors);
// Returns s · x, which overwrites x; s is a constant of the model's file, under the module's name.
ValueId scale_by(Recorder& g, ValueId x, const std::string& module);
// Returns x in the type that products read.
ValueId in_compute_type(Recorder& g, ValueId x);
// Returns x in the type of the stream.
ValueId in_stream_type(Recorder& g, ValueId x);
// Leaves the supervised positions.
ValueId gather(Recorder& g, ValueId h);

namespace bind {
CopyRows copy(const Call& c, int64_t rows, const Part& from, const Part& to);
}  // namespace bind

}  // namespace forge
