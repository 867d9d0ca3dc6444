#pragma once
// The layer's part of the rehearsal: forward and backward of its two halves, op by op.
#include <vector>

#include "core/plan/memory.h"
#include "providers/reference/ledger.h"

namespace forge {

struct RehearsedLinear {
  int64_t in = 0, out = 0;
  int64_t rank = 0;      // 0: no adapter
  bool trained = false;  // the weight itself
};

struct RehearsedLayer {
  RehearsedLinear q, k, v, o, gate, up, down;
  bool input_norm = false, post_norm = false;  // trained
};

struct LayerTable {
  std::vector<RehearsedLayer> layers;
  int64_t lowest =
      0;  // the lowest layer that keeps anything for backward; as Network's lowest_trained_layer_
  bool embedding = false, final_norm = false, head = false;  // trained
};
LayerTable layer_table(const ActivationShape& shape);

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

class LayerRehearsal {
 public:
  LayerRehearsal(const ActivationShape& shape, Ledger& ledger);

  int64_t tokens() const { return tokens_; }
  int64_t element() const { return element_; }
  bool narrow() const { return element_ < 4; }  // computes in bf16 or fp16, norms in fp32

  // Halves, [tokens, hidden] → [tokens, hidden]. `graph` null: without autograd. `use` is where what stays
  // for backward is counted, `out` where the result is.
  Held attention(const RehearsedLayer& layer, Use use, AttentionGraph* graph, Use out);
  Held mlp(const RehearsedLayer& layer, Use use, MlpGraph* graph, Use out);
  // The gradient of the half's output is the caller's and lives throughout.
  Held attention_backward(const RehearsedLayer& layer, AttentionGraph& graph);
  Held mlp_backward(const RehearsedLayer& layer, MlpGraph& graph);

  Held norm(Use use, int64_t rows, NormGraph* graph);
  // `residual`: the input has the half's own gradient besides.
  Held norm_backward(Use use, int64_t rows, NormGraph& graph, Held grad, bool residual);
  // LibTorch sums products of bf16 on a CPU in fp32 beside their result; oneDNN's AMX kernels do without.
  void product_scratch(Use use, int64_t rows, int64_t width) {
    if (narrow() && !shape_.cuda) ledger_.hold(use, 4 * rows * width);
  }

 private:
  Held wide(Use use, int64_t width) { return ledger_.hold(use, element_ * tokens_ * width); }
  // The result of a matrix product.
  Held product(Use use, int64_t width) {
    Held result = wide(use, width);
    product_scratch(use, tokens_, width);
    return result;
  }
  Held weight_grad(int64_t in, int64_t out) {
    Held result = ledger_.hold(Use::weight_grads, element_ * in * out);
    product_scratch(Use::weight_grads, in, out);
    return result;
  }
  Held linear(const RehearsedLinear& linear, const Held& x, Use use, LinearGraph* graph);
  // Adds to `sum`, the gradient of x so far, in place; the first one becomes it.
  Held linear_backward(const RehearsedLinear& linear, LinearGraph& graph, Held grad, Held sum,
                       std::vector<Held>& weight_grads);
  Held rope(int64_t width, Use use);
  Held rope_backward(Held grad, int64_t width);
  int64_t attention_forward_scratch() const;
  int64_t attention_backward_scratch() const;

  const ActivationShape& shape_;
  Ledger& ledger_;
  int64_t tokens_, element_, hidden_, inner_, q_, kv_;
  bool grouped_, several_, training_;
};

}  // namespace forge
