#pragma once
// The reference provider's layer, rehearsed: it follows core/model/decoder.cpp, kernels/ and reference.cpp line by line, and
// LibTorch's autograd: a node's saved tensors are freed when it has run, nodes run in the reverse of the order they were
// made in, and a second gradient of the same tensor is added in place.
#include <vector>

#include "providers/rehearsal.h"

namespace forge {

// What autograd keeps of an op until its backward has run.
struct NormGraph {
  bool trained = false;
  Held wide, inverse, normed;
};
struct LinearGraph {
  Held x, mask, s, unscaled;
};
struct AttentionGraph {
  NormGraph norm;
  LinearGraph q, k, v, o;
  Held queries, keys, values, output, logsumexp;
};
struct MlpGraph {
  NormGraph norm;
  LinearGraph gate, up, down;
  Held gate_out, silu, up_out;
};

class ReferenceLayers : public RehearsedLayers {
 public:
  ReferenceLayers(const ActivationShape& shape, Ledger& ledger);

  Held forward(const RehearsedLayer& layer, const Held& hidden, Held* saved) override;
  Held backward(const RehearsedLayer& layer, const Held& grad, Held saved, bool needs_input_grad) override;

  Held norm(Use use, int64_t rows, NormGraph* graph);
  // `residual`: the input has the half's own gradient besides.
  Held norm_backward(Use use, int64_t rows, NormGraph& graph, Held grad, bool residual);

 private:
  // Halves, [tokens, hidden] → [tokens, hidden]. `graph` null: without autograd. `use` is where what stays
  // for backward is counted, and the result.
  Held attention(const RehearsedLayer& layer, Use use, AttentionGraph* graph);
  Held mlp(const RehearsedLayer& layer, Use use, MlpGraph* graph);
  // The gradient of the half's output is the caller's and lives throughout.
  Held attention_backward(const RehearsedLayer& layer, AttentionGraph& graph);
  Held mlp_backward(const RehearsedLayer& layer, MlpGraph& graph);
  Held linear(const RehearsedLinear& linear, const Held& x, Use use, LinearGraph* graph);
  // Adds to `sum`, the gradient of x so far, in place; the first one becomes it.
  Held linear_backward(const RehearsedLinear& linear, LinearGraph& graph, Held grad, Held sum,
                       std::vector<Held>& weight_grads);
  Held rope(int64_t width, Use use);
  Held rope_backward(Held grad, int64_t width);
  int64_t attention_forward_scratch() const;
  int64_t attention_backward_scratch() const;

  int64_t hidden_, inner_, q_, kv_;
  bool grouped_, several_, training_;
};

}  // namespace forge
