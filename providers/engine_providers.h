#pragma once
// The engine's half of the provider table: from a plan's provider name to who computes the layers.
#include <memory>
#include <string>

#include "core/model/decoder.h"
#include "core/model/model.h"
#include "core/model/step_provider.h"
#include "core/model/trainable.h"
#include "providers/step_options.h"

namespace forge {

// Throws Error(internal) for a name the plan should never hold.
std::unique_ptr<StepProvider> make_step_provider(const std::string& name, const Model& model,
                                                 TrainableSet& trainables, const StepOptions& options);
// Who decodes with that provider; of `options` only the shape counts.
std::unique_ptr<Decoder> make_decoder(const std::string& name, const Model& model, TrainableSet& trainables,
                                      const StepOptions& options);

}  // namespace forge
