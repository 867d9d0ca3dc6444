#pragma once
// The engine's half of the provider table: returns the implementation of a provider that a plan
// names.
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
// Returns the decoder of the provider that draws completions for that one (Provider::decoder). Only
// the shape of `options` is used.
std::unique_ptr<Decoder> make_decoder(const std::string& name, const Model& model, TrainableSet& trainables,
                                      const StepOptions& options);

}  // namespace forge
