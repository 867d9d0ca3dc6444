#pragma once
// Layer norms in a list.
#include "core/graph/op_record.h"
#include "core/graph/recorder.h"

namespace forge {

namespace ops {
// x → y, statistics: mean and 1 / deviation of each row.
extern const OpRecord layer_norm;
// d y, x, statistics[, d x] → d x.
extern const OpRecord layer_norm_backward;
}  // namespace ops

// Subtracts the mean of x and divides by its deviation. `bias`: the module has a bias.
ValueId layer_norm(Recorder& g, ValueId x, const std::string& module, double eps, bool bias, double weight_offset = 0);
// Like layer_norm(), without a module: there are neither weight nor bias.
ValueId bare_layer_norm(Recorder& g, ValueId x, const std::string& name, double eps);
// Like layer_norm(), with the stream itself as the result: for layers that norm after their
// additions.
ValueId stream_norm(Recorder& g, ValueId x, const std::string& module, double eps, bool bias);

}  // namespace forge
