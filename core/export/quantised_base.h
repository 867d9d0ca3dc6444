#pragma once
// The base that an adapter of a quantised run was trained on: its matrices through 4 or 8 bits and back, as the engine holds them
// (kernels/quantize/quantize.h says the formats).
#include <memory>

#include "core/config/job.h"
#include "core/families/model_spec.h"
#include "core/io/tensor_file.h"

namespace forge {

// `base` with every matrix that such a run quantises dequantised again; all else as it is. Equal to the engine's but for the
// rounding of one mean under double quantisation. One tensor's codes are in memory at a time.
std::unique_ptr<TensorFile> quantised_base(std::unique_ptr<TensorFile> base, const ModelSpec& spec,
                                           const AdapterConfig& adapter, const ModelConfig& model);

}  // namespace forge
