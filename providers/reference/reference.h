#pragma once
// The reference provider: a decoder layer in plain ATen, differentiated by LibTorch's autograd inside one detached
// layer. Every model, every device; what the fused provider is checked against.
#include <memory>

#include "core/config/job.h"
#include "core/model/layer.h"
#include "core/model/model.h"
#include "core/model/trainable.h"

namespace forge {

// Recompute by `checkpointing`: none keeps a layer's whole graph, selective keeps the attention half's and recomputes
// the MLP half (which holds most activations and costs no attention), full keeps the layer's input alone.
std::unique_ptr<LayerProvider> reference_provider(const Model& model, TrainableSet& trainables,
                                                  Checkpointing checkpointing);

}  // namespace forge
