#pragma once
// NEFTune (Jain et al., 2023): uniform noise on the embeddings of a training step, of magnitude
// alpha / sqrt(length · hidden) by each sequence's length.
#include <ATen/core/Tensor.h>

#include "core/model/batch_tensors.h"

namespace forge {

// Returns the noise, fp32 [tokens, hidden_size].
at::Tensor neftune_noise(const BatchTensors& batch, int64_t hidden_size, double alpha);

}  // namespace forge
