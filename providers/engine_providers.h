#pragma once
// The engine's half of the provider table: from a plan's provider name to who computes the layers.
#include <memory>
#include <string>

#include "core/model/layer.h"
#include "core/model/model.h"
#include "core/model/trainable.h"

namespace forge {

// Throws Error(internal) for a name the plan should never hold.
std::unique_ptr<LayerProvider> make_layer_provider(const std::string& name, const Model& model,
                                                   TrainableSet& trainables, Checkpointing checkpointing);

}  // namespace forge
