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

// Recompute by `shape.checkpointing`: none keeps a layer's whole graph, selective keeps the attention half's and recomputes
// the MLP half (which holds most activations and costs no attention), full keeps the layer's input alone.
std::unique_ptr<StepProvider> reference_provider(const Model& model, TrainableSet& trainables,
                                                 const StepOptions& options);
std::unique_ptr<Decoder> reference_decoder(const Model& model, TrainableSet& trainables,
                                           const StepOptions& options);

}  // namespace forge
