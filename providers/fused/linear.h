#pragma once
// Linear layers of a list with their adapters, forward and backward: one function an op
// (core/model/graph/graph.h). Products are a library's, or in decoding kernels/product. Modules
// whose weights are consecutive in memory are multiplied as one.
#include "providers/fused/run.h"

namespace forge::fused {

void linear(const FusedRun& r);
void linear_input_gradient(const FusedRun& r);
// Adds to the gradients of trained weights and biases.
void linear_weight_gradient(const FusedRun& r);
void adapter_gradient(const FusedRun& r);

// Compute linear layers whose adapters are folded into the products of their weights.
void adapter_sums(const FusedRun& r);
// Adds to B's gradients.
void adapter_sums_gradient(const FusedRun& r);
// Adds to A's gradients.
void adapter_input_gradient(const FusedRun& r);
// Computes a gated activation and the adapters beside it if one kernel does both. Returns false if
// none does.
bool gate_with_adapters(const FusedRun& r);
// Copies A and B to the weights' matrices that the products read, after A and B have changed.
void place_adapters(const FusedRun& r);

void dora_ratio(const FusedRun& r);
void dora(const FusedRun& r);
void dora_backward(const FusedRun& r);

}  // namespace forge::fused
