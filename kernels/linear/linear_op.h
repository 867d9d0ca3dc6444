#pragma once
// Linear layers of a list, forward and backward. Products are a library's, or in decoding
// kernels/product. Modules whose weights are consecutive in memory are multiplied as one.
#include "core/graph/op_record.h"
#include "core/graph/recorder.h"

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

// A linear layer's name, its output features, and whether it has a bias.
struct LinearShape {
  const char* module;
  int64_t out = 0;
  bool bias = false;
  LinearUse use = LinearUse::layer;
};

// Passes x through modules that read the same input. Their results are side by side, and one
// product makes them if their weights are too.
std::vector<ValueId> linear_all(Recorder& g, ValueId x, const std::vector<LinearShape>& shapes);
template <size_t N>
std::array<ValueId, N> linear(Recorder& g, ValueId x, const LinearShape (&modules)[N]) {
  return Recorder::first<N>(linear_all(g, x, {modules, modules + N}));
}
inline ValueId linear(Recorder& g, ValueId x, const LinearShape& module) { return linear_all(g, x, {module})[0]; }

namespace flops {
// Count a linear layer with its adapters, its products alone, and its trained weights' gradients.
double linear(const Graph& graph, const Op& op, double rows, double mean_length);
double product(const Graph& graph, const Op& op, double rows, double mean_length);
double weight_gradient(const Graph& graph, const Op& op, double rows, double mean_length);
}  // namespace flops

}  // namespace forge
