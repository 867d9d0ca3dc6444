#pragma once
// One op of a list while it runs: a call with the device and the weights that it converts. The
// device may be one that only lists what it is given (gpu_launches.cpp). No torch.
#include "kernels/device/device.h"
#include "providers/fused/bind.h"
#include "providers/fused/step_weights.h"

namespace forge {

struct FusedRun : Call {
  FusedRun(ComputeDevice& device, const StepMemory& m, const Op& op, void* workspace, StepWeights& weights,
           const StepBatch& batch)
      : Call{m, op, workspace, weights.all(), weights.first(), batch, weights.counters()},
        device(device),
        weights(weights) {}
  // Runs another op with the same memory: a part of r's.
  FusedRun(const FusedRun& r, const Op& part)
      : FusedRun(r.device, r.m, part, r.workspace, r.weights, r.batch) {}

  ComputeDevice& device;
  StepWeights& weights;
};

}  // namespace forge
