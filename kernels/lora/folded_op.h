#pragma once
// Adapters that are folded into the products of their weights in a list
// (core/model/graph/fold_adapters.h).
#include "core/graph/op_record.h"
#include "kernels/call/run.h"
#include "kernels/lora/folded_args.h"

namespace forge {

namespace ops {
// x → s[, s once more] = scale x Aᵀ of all adapted modules, after x.
extern const OpRecord adapter_sums;
// d y, s → d s = scale d y B, after d y; into B's gradients.
extern const OpRecord adapter_sums_gradient;
// d s, x →, into A's gradients.
extern const OpRecord adapter_input_gradient;
}  // namespace ops

namespace flops {
double adapter_sums(const Graph& graph, const Op& op, double rows, double mean_length);
}  // namespace flops

namespace bind {

// A packed weight [N + R, K + R]: W with B beside it, and A below them.
struct Packed {
  char* data = nullptr;
  int64_t stride = 0, outs = 0, ranks = 0, in = 0, element_bytes = 0;

  void* at(int64_t row, int64_t column) const { return data + (row * stride + column) * element_bytes; }
};
Packed packed(const Call& c);
Gemm folded_linear(const Call& c);
Gemm folded_input_gradient(const Call& c);
// Copies A and B of a linear's modules to the matrix that its products read.
void place_adapters(const OpRun& linear);

}  // namespace bind

}  // namespace forge
