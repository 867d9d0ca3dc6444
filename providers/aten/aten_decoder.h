#pragma once
// Decoding in plain ATen, on every device: a sequence's keys and values are tensors of its own.
#include <memory>

#include "core/model/decoder.h"
#include "core/model/model.h"
#include "core/model/trainable.h"
#include "providers/step_options.h"

namespace forge {

std::unique_ptr<Decoder> aten_decoder(const Model& model, TrainableSet& trainables, const StepOptions& options);

}  // namespace forge
