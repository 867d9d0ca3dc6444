#pragma once
// Linear layers of a list with their adapters, forward and backward: one function an op (core/graph/graph.h). Products are LibTorch's,
// or in decoding kernels/product; modules whose weights lie one behind the other are multiplied as one.
#include "providers/fused/cpu_run.h"

namespace forge::fused {

void linear(const CpuRun& r);
void linear_input_gradient(const CpuRun& r);
// Adds to the gradients of trained weights and biases. In 16 bits the workspace holds the product before it is added.
void linear_weight_gradient(const CpuRun& r);
void adapter_gradient(const CpuRun& r);

void dora_ratio(const CpuRun& r);
void dora(const CpuRun& r);
void dora_backward(const CpuRun& r);

}  // namespace forge::fused
