#pragma once
// A model without a file, for measurements: its weights are random, its times are those of any model of that shape.
#include "core/model/model.h"

namespace forge {

// Weights of one product lie side by side, as the loader has them. The head is the embedding.
Model random_model(const ModelSpec& spec, c10::ScalarType type);

}  // namespace forge
