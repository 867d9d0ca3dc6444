#pragma once
// A training step whose layers are plain ATen, differentiated by LibTorch's autograd inside
// detached pieces: the oracle of the lists that forge derives, and of the kernels and definitions
// that run them.
#include <memory>

#include "core/model/model.h"
#include "core/model/step_provider.h"
#include "core/model/trainable.h"
#include "providers/engine_providers.h"
#include "providers/step_options.h"

namespace forge {

// Returns the step. It keeps or computes again the ops between two additions to the stream, half a
// layer, as a whole: all of them if `shape.recompute` names a part.
std::unique_ptr<StepProvider> whole_layers(const Model& model, TrainableSet& trainables, const StepOptions& options);

// Returns the oracle under the name "autograd", else the provider of that name.
inline std::unique_ptr<StepProvider> step_of(const std::string& name, const Model& model, TrainableSet& trainables, const StepOptions& options) {
  return name == "autograd" ? whole_layers(model, trainables, options) : make_step_provider(name, model, trainables, options);
}

}  // namespace forge
