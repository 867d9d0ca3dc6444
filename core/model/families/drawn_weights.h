#pragma once
// The initial weights of a model that is trained from scratch, as a TensorFile without a file on
// disk.
#include <memory>

#include "core/model/families/parameters.h"

namespace forge {

// Returns the tensors of base_parameters(spec), initialised as in transformers: matrices are normal
// with a standard deviation of spec.initializer_range, but 0 in the embedding's row of the padding
// token; biases are 0; norms multiply with 1. A value is a function of the seed, the tensor's name
// and its place (core/lib/base/random.h).
std::unique_ptr<TensorFile> drawn_weights(const ModelSpec& spec, int64_t seed);

}  // namespace forge
