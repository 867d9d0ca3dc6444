#pragma once
// The reference provider: a decoder layer in plain ATen, differentiated by LibTorch's autograd inside one detached
// layer. Every model, every device; what the fused provider is checked against.
#include <memory>

#include "core/model/decoder.h"
#include "core/model/model.h"
#include "core/model/step_provider.h"
#include "core/model/trainable.h"
#include "providers/step_options.h"

namespace forge {

// It keeps or computes again what lies between two additions to the stream, a layer's half, as a whole: all of it where
// `shape.recompute` names a part.
std::unique_ptr<StepProvider> reference_provider(const Model& model, TrainableSet& trainables,
                                                 const StepOptions& options);
std::unique_ptr<Decoder> reference_decoder(const Model& model, TrainableSet& trainables,
                                           const StepOptions& options);

}  // namespace forge
