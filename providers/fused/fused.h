#pragma once
// The fused provider: a decoder layer as a sequence of kernels (kernels/), its backward written by hand. On a CPU so far.
#include <memory>

#include "core/config/job.h"
#include "core/model/layer.h"
#include "core/model/model.h"
#include "core/model/trainable.h"

namespace forge {

// Recompute by `checkpointing`: none keeps q, k, v, the attention's result, gate and up; selective leaves out gate and
// up; full keeps a layer's input alone. What costs a pass and no product (norms, the gated activation) is always made
// again.
std::unique_ptr<LayerProvider> fused_provider(const Model& model, TrainableSet& trainables,
                                              Checkpointing checkpointing);

}  // namespace forge
