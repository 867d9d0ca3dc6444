#pragma once
// RMS norms in a list.
#include "core/graph/op_record.h"
#include "core/graph/recorder.h"

namespace forge {

namespace ops {
// x → y, inverse: 1 / rms of each row, or of each head of it.
extern const OpRecord norm;
// a, b → a + b, y, inverse: both in one pass.
extern const OpRecord add_norm;
// d y, x, inverse[, d x] → d x[, y]: added to the given d x; writes its own without.
extern const OpRecord norm_backward;
// x → each head of it by itself, divided by its rms.
extern const OpRecord unit_norm;
// d y, x → d x.
extern const OpRecord unit_norm_backward;
}  // namespace ops

ValueId norm(Recorder& g, ValueId x, const std::string& module, double eps, double weight_offset = 0);
// Like norm(), for a weight that files hold under the name `vector` itself.
ValueId vector_norm(Recorder& g, ValueId x, const std::string& vector, double eps);
// Norms each head of x by itself, without a weight.
ValueId unit_norm(Recorder& g, ValueId x, int64_t head_dim, double eps);
// Like norm(), over each head of x by itself; all heads have one weight [head_dim].
ValueId head_norm(Recorder& g, ValueId x, const std::string& module, int64_t head_dim, double eps, double weight_offset = 0);
// Norms `heads` parts of x apart, each by its own part of the weight [width of x].
ValueId part_norm(Recorder& g, ValueId x, const std::string& module, int64_t heads, double eps);

}  // namespace forge
