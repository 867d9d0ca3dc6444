#pragma once
// The fused provider: runs the lists of a step (core/model/families) op by op on forge's kernels,
// in one arena.
#include <memory>

#include "core/model/decoder.h"
#include "core/model/model.h"
#include "core/model/step_provider.h"
#include "core/model/trainable.h"
#include "providers/step_options.h"

namespace forge {

std::unique_ptr<StepProvider> fused_provider(const Model& model, TrainableSet& trainables, const StepOptions& options);
// Returns the decoder: one program over the evaluation's list.
std::unique_ptr<Decoder> fused_decoder(const Model& model, TrainableSet& trainables, const StepOptions& options);

}  // namespace forge
