#include "providers/reference/rehearsal.h"

#include <algorithm>

#include "providers/reference/rehearsed_layer.h"

namespace forge {
namespace {

struct Piece {
  Held input, output;
};

struct Saved {
  Piece attention, mlp;
  AttentionGraph attention_graph;
  MlpGraph mlp_graph;
  bool has_attention = false, has_mlp = false;
};

class Step {
 public:
  Step(const ActivationShape& shape, Ledger& ledger)
      : shape_(shape), ledger_(ledger), layer_(shape, ledger), table_(layer_table(shape)) {}

  void train() {
    Held batch = batch_tensors();
    const int64_t layers = shape_.spec.num_layers;
    std::vector<Saved> saved(static_cast<size_t>(layers));
    Held hidden = boundary(Use::saved);
    for (int64_t l = 0; l < layers; ++l)
      hidden = l >= table_.lowest ? forward(l, hidden, saved[static_cast<size_t>(l)]) : forward(l, hidden);
    Held grad = head_backward();
    hidden.reset();
    for (int64_t l = layers - 1; l >= std::max<int64_t>(table_.lowest, 0); --l)
      grad = backward(l, std::move(saved[static_cast<size_t>(l)]));
    if (table_.embedding && layer_.narrow())
      ledger_.hold(Use::layer, 4 * layer_.tokens() * shape_.spec.hidden_size);
  }

  void evaluate() {
    Held batch = batch_tensors();
    Held hidden = boundary(Use::layer);
    for (int64_t l = 0; l < shape_.spec.num_layers; ++l) hidden = forward(l, hidden);
    Held rows = ledger_.hold(Use::head, row_bytes());
    Held normed = layer_.norm(Use::head, shape_.supervised_tokens, nullptr);
    Held scratch = layer_.narrow() ? Held() : logits(4);
    Held narrow = layer_.narrow() ? logits(layer_.element() + 4) : Held();
  }

 private:
  int64_t row_bytes() const { return layer_.element() * shape_.supervised_tokens * shape_.spec.hidden_size; }
  Held boundary(Use use) {
    return ledger_.hold(use, layer_.element() * layer_.tokens() * shape_.spec.hidden_size);
  }
  Held logits(int64_t element) {
    return ledger_.hold(Use::head,
                        std::min(kHeadChunk, shape_.supervised_tokens) * shape_.spec.vocab_size * element);
  }

  // Ids, angles, and ids, positions and weights of what is supervised.
  Held batch_tensors() {
    const int64_t angles = 2 * layer_.tokens() * (shape_.spec.head_dim / 2);
    return ledger_.hold(Use::batch,
                        8 * layer_.tokens() + angles * layer_.element() + 20 * shape_.supervised_tokens);
  }

  Held forward(int64_t l, const Held&) {
    Held middle = layer_.attention(table_.layers[static_cast<size_t>(l)], Use::layer, nullptr, Use::layer);
    return layer_.mlp(table_.layers[static_cast<size_t>(l)], Use::layer, nullptr, Use::layer);
  }

  Held forward(int64_t l, const Held& hidden, Saved& saved) {
    const RehearsedLayer& row = table_.layers[static_cast<size_t>(l)];
    const Checkpointing checkpointing = shape_.checkpointing;
    saved.has_attention = checkpointing != Checkpointing::full;
    saved.has_mlp = checkpointing == Checkpointing::none;
    saved.attention.input = hidden;
    Held middle =
        layer_.attention(row, Use::saved, saved.has_attention ? &saved.attention_graph : nullptr, Use::saved);
    if (saved.has_attention) saved.attention.output = middle;
    if (checkpointing != Checkpointing::full) saved.mlp.input = middle;
    Held output = layer_.mlp(row, Use::saved, saved.has_mlp ? &saved.mlp_graph : nullptr, Use::saved);
    if (saved.has_mlp) saved.mlp.output = output;
    return output;
  }

  Held backward(int64_t l, Saved saved) {
    const RehearsedLayer& row = table_.layers[static_cast<size_t>(l)];
    if (!saved.has_attention) {
      saved.attention.output = layer_.attention(row, Use::layer, &saved.attention_graph, Use::layer);
      saved.mlp.input = saved.attention.output;
    }
    if (!saved.has_mlp) saved.mlp.output = layer_.mlp(row, Use::layer, &saved.mlp_graph, Use::layer);
    Held middle = layer_.mlp_backward(row, saved.mlp_graph);
    saved.mlp = {};
    return layer_.attention_backward(row, saved.attention_graph);
  }

  // core/train/network.cpp head_backward and kernels/lm_head.
  Held head_backward() {
    const int64_t rows = shape_.supervised_tokens, e = layer_.element();
    Held picked = ledger_.hold(Use::head, row_bytes());
    NormGraph graph;
    graph.trained = table_.final_norm;
    Held normed = layer_.norm(Use::head, rows, &graph);
    Held d_normed = ledger_.hold(Use::head, row_bytes());
    {
      Held chunk = logits(4 + (layer_.narrow() ? e : 0) + (shape_.needs_entropy ? 8 : 0));
      layer_.product_scratch(Use::head, std::min(kHeadChunk, rows), shape_.spec.hidden_size);
      // In fp32 the head's gradient is added where it belongs; else it is a matrix of its own first.
      if (table_.head && layer_.narrow()) {
        Held gradient = ledger_.hold(Use::head, e * shape_.spec.vocab_size * shape_.spec.hidden_size);
        layer_.product_scratch(Use::head, shape_.spec.vocab_size, shape_.spec.hidden_size);
      }
    }
    Held d_rows =
        layer_.norm_backward(Use::head, rows, graph, d_normed, false);  // the engine's own handle lives on
    return boundary(Use::layer);
  }

  const ActivationShape& shape_;
  Ledger& ledger_;
  LayerRehearsal layer_;
  LayerTable table_;
};

}  // namespace

UseBytes rehearse_training(const ActivationShape& shape) {
  Ledger ledger;
  Step(shape, ledger).train();
  return ledger.peak();
}

UseBytes rehearse_evaluation(const ActivationShape& shape) {
  Ledger ledger;
  Step(shape, ledger).evaluate();
  return ledger.peak();
}

}  // namespace forge
