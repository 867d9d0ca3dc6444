#pragma once
// Computes with a model from its file, a layer at a time, for a run that has no room for the model
// in the type that it computes in.
#include <ATen/core/Tensor.h>

#include <vector>

#include "core/job/job.h"
#include "core/lib/io/tensor_file.h"
#include "core/model/batch_tensors.h"
#include "core/train/pass.h"

namespace forge {

// Returns logp of each batch's supervised tokens, computed in plain ATen: fp32 [targets], on the
// host. Each layer is read once, and all batches pass it before the next one is read. Memory: the
// largest layer, or the embedding or the head; the stream of all batches; activations of one.
// Throws StepInterrupted.
std::vector<at::Tensor> logps_layer_by_layer(const TensorFile& file, const ModelSpec& spec, Residual residual, c10::ScalarType type, c10::Device device,
                                             const std::vector<BatchTensors>& batches, const StopFlag& stop);

}  // namespace forge
