#pragma once
// The weights of a model that is trained from nothing, as a file that nobody wrote.
#include <memory>

#include "core/families/parameters.h"

namespace forge {

// The tensors of base_parameters(spec). As transformers draws them: matrices normal with a standard deviation of
// spec.initializer_range, but 0 in the embedding's row of the padding token; biases 0; norms such that they multiply with 1.
// A value is a function of the seed, the tensor's name and its place (core/base/random.h).
std::unique_ptr<TensorFile> drawn_weights(const ModelSpec& spec, int64_t seed);

}  // namespace forge
