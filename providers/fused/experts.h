#pragma once
// Mixtures of experts, whose rows are sorted by expert: one op for all of a layer's experts
// (core/graph/graph.h).
#include "providers/fused/run.h"

namespace forge::fused {

void route(const FusedRun& r);
void route_backward(const FusedRun& r);
void dispatch(const FusedRun& r);  // forward and backward
void combine(const FusedRun& r);
void combine_backward(const FusedRun& r);
void gate_rows(const FusedRun& r);
void gate_rows_backward(const FusedRun& r);
void expert_linear(const FusedRun& r);
void expert_input_gradient(const FusedRun& r);
void expert_weight_gradient(const FusedRun& r);
void expert_adapter_gradient(const FusedRun& r);

}  // namespace forge::fused
