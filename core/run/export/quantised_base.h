#pragma once
// The base on which an adapter of a quantised run was trained: its matrices rounded to 4 or 8 bits,
// like the engine holds them (kernels/quantize/quantize.h has the formats).
//
// A quantised base is used only if it is asked for. The adapter has learned to correct what nf4
// does to the base, so either base is right for somebody: the difference of logits is measured and
// shown.
#include <memory>

#include "core/job/job.h"
#include "core/lib/io/tensor_file.h"
#include "core/model/families/model_spec.h"

namespace forge {

// Returns `base` with every matrix that such a run quantises quantised and dequantised; all others
// are unchanged. Equal to the engine's but for the rounding of one mean under double quantisation.
// One tensor's codes are in memory at a time.
std::unique_ptr<TensorFile> quantised_base(std::unique_ptr<TensorFile> base, const ModelSpec& spec,
                                           const AdapterConfig& adapter, const ModelConfig& model);

}  // namespace forge
