#pragma once
// Makes a model without a file, for measurements: its weights are random, its times are those of
// any model of that shape.
#include "core/model/model.h"

namespace forge {

// Returns the model. Weights of one product are adjacent, as the loader has them. The head is the
// embedding.
Model random_model(const ModelSpec& spec, c10::ScalarType type);

}  // namespace forge
