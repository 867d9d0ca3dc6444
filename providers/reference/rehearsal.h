#pragma once
// A training step of the reference provider, rehearsed: every tensor that the step allocates, held and freed
// in the step's own order, so that the peak is the engine's and not an estimate of it. It follows
// core/model/decoder.cpp, kernels/, providers/reference/reference.cpp and core/train/network.cpp line by
// line, and LibTorch's autograd: a node's saved tensors are freed when it has run, nodes run in the reverse
// of the order they were made in, and a second gradient of the same tensor is added in place. tests/memory
// compares both; bench/memory measures them on real sizes.
#include "core/plan/memory.h"
#include "providers/reference/ledger.h"

namespace forge {

// One micro-batch forward and backward; what is held at its highest moment.
UseBytes rehearse_training(const ActivationShape& shape);
// One batch of an evaluation.
UseBytes rehearse_evaluation(const ActivationShape& shape);

}  // namespace forge
