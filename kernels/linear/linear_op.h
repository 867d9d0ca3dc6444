#pragma once
// Linear layers of a list, forward and backward. Products are a library's, or in decoding
// kernels/product. Modules whose weights are consecutive in memory are multiplied as one.
#include "core/graph/op_record.h"

namespace forge {

namespace ops {
// x → y, s of each adapted module: y = x Wᵀ + bias + scale (x Aᵀ) Bᵀ; modules side by side in y.
// x, s → y where it is folded: y = [x, s] [W, B]ᵀ + bias. x[, s], h → h + y where its product adds
// the stream (core/model/graph/fold_residuals.h).
extern const OpRecord linear;
// d y → d x = d y W, folded [d y, d s] [W; A]; added to a given d x.
extern const OpRecord linear_input_gradient;
// d y, x →, into the weight's and the bias's gradients.
extern const OpRecord linear_weight_gradient;
}  // namespace ops

namespace flops {
// Count a linear layer with its adapters, its products alone, and its trained weights' gradients.
double linear(const Graph& graph, const Op& op, double rows, double mean_length);
double product(const Graph& graph, const Op& op, double rows, double mean_length);
double weight_gradient(const Graph& graph, const Op& op, double rows, double mean_length);
}  // namespace flops

}  // namespace forge
