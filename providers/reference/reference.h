#pragma once
// The reference provider: a decoder layer in plain ATen, differentiated by LibTorch's autograd
// inside one detached layer. It supports every model and every device; the fused provider is
// checked against it.
#include <memory>

#include "core/model/decoder.h"
#include "core/model/model.h"
#include "core/model/step_provider.h"
#include "core/model/trainable.h"
#include "providers/step_options.h"

namespace forge {

// Returns the provider. It keeps or recomputes the ops between two additions to the stream, half a
// layer, as a whole: all of them if `shape.recompute` names a part.
std::unique_ptr<StepProvider> reference_provider(const Model& model, TrainableSet& trainables,
                                                 const StepOptions& options);
std::unique_ptr<Decoder> reference_decoder(const Model& model, TrainableSet& trainables,
                                           const StepOptions& options);

}  // namespace forge
