#include "providers/rehearsal.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/config/names.h"
#include "providers/reference/rehearsed_layer.h"

namespace forge {
namespace {

class Step {
 public:
  Step(const ActivationShape& shape, Ledger& ledger, MakeLayers make)
      : shape_(shape),
        ledger_(ledger),
        layers_(make(shape, ledger)),
        head_(shape, ledger),
        table_(layer_table(shape)),
        element_(bytes_of(shape.precision)) {}

  void train() {
    Held batch = batch_tensors();
    const int64_t layers = shape_.spec.num_layers;
    std::vector<Held> saved(static_cast<size_t>(layers));
    Held hidden = boundary(Use::saved);
    for (int64_t l = 0; l < layers; ++l)
      hidden =
          layers_->forward(row(l), hidden, l >= table_.lowest ? &saved[static_cast<size_t>(l)] : nullptr);
    Held grad = head_backward();
    hidden.reset();
    for (int64_t l = layers - 1; l >= std::max<int64_t>(table_.lowest, 0); --l)
      grad = layers_->backward(row(l), grad, std::move(saved[static_cast<size_t>(l)]), l > table_.lowest);
    if (table_.embedding && narrow())
      ledger_.hold(Use::layer, 4 * shape_.micro_batch_tokens * shape_.spec.hidden_size);
  }

  void evaluate() {
    Held batch = batch_tensors();
    Held hidden = boundary(Use::layer);
    for (int64_t l = 0; l < shape_.spec.num_layers; ++l) hidden = layers_->forward(row(l), hidden, nullptr);
    Held rows = ledger_.hold(Use::head, row_bytes());
    Held normed = head_.norm(Use::head, shape_.supervised_tokens, nullptr);
    Held scratch = narrow() ? Held() : logits(4);
    Held result = narrow() ? logits(element_ + 4) : Held();
    head_.multiply({std::min(kHeadChunk, shape_.supervised_tokens), shape_.spec.hidden_size, shape_.spec.vocab_size});
  }

 private:
  const RehearsedLayer& row(int64_t layer) const { return table_.layers[static_cast<size_t>(layer)]; }
  bool narrow() const { return element_ < 4; }
  int64_t row_bytes() const { return element_ * shape_.supervised_tokens * shape_.spec.hidden_size; }
  Held boundary(Use use) {
    return ledger_.hold(use, element_ * shape_.micro_batch_tokens * shape_.spec.hidden_size);
  }
  Held logits(int64_t element) {
    return ledger_.hold(Use::head,
                        std::min(kHeadChunk, shape_.supervised_tokens) * shape_.spec.vocab_size * element);
  }

  // Ids, angles, and ids, positions and weights of what is supervised.
  Held batch_tensors() {
    const int64_t angles = 2 * shape_.micro_batch_tokens * (shape_.spec.head_dim / 2);
    return ledger_.hold(Use::batch,
                        8 * shape_.micro_batch_tokens + angles * element_ + 20 * shape_.supervised_tokens);
  }

  // core/train/network.cpp head_backward and kernels/lm_head.
  Held head_backward() {
    const int64_t rows = shape_.supervised_tokens, e = element_;
    Held picked = ledger_.hold(Use::head, row_bytes());
    NormGraph graph;
    graph.trained = table_.final_norm;
    Held normed = head_.norm(Use::head, rows, &graph);
    Held d_normed = ledger_.hold(Use::head, row_bytes());
    {
      Held chunk = logits(4 + (narrow() ? e : 0) + (shape_.needs_entropy ? 8 : 0));
      const int64_t count = std::min(kHeadChunk, rows), hidden = shape_.spec.hidden_size;
      head_.multiply({count, hidden, shape_.spec.vocab_size});
      head_.multiply({count, shape_.spec.vocab_size, hidden});
      // In fp32 the head's gradient is added where it belongs; else it is a matrix of its own first.
      if (table_.head && narrow()) {
        Held gradient = ledger_.hold(Use::head, e * shape_.spec.vocab_size * shape_.spec.hidden_size);
        head_.multiply({shape_.spec.vocab_size, count, hidden, true});
      }
    }
    Held d_rows =
        head_.norm_backward(Use::head, rows, graph, d_normed, false);  // the engine's own handle lives on
    return boundary(Use::layer);
  }

  const ActivationShape& shape_;
  Ledger& ledger_;
  std::unique_ptr<RehearsedLayers> layers_;
  ReferenceLayers head_;  // its norm runs under autograd, whoever computes the layers
  LayerTable table_;
  int64_t element_;
};

// A weight that is not held in the compute type is converted for the product it takes part in, one at a time.
int64_t conversion_scratch(const ActivationShape& shape) {
  const ModelSpec& s = shape.spec;
  const int64_t linear = s.hidden_size * std::max(s.intermediate_size, s.num_heads * s.head_dim);
  int64_t largest = shape.quantization != Quantization::none ? linear : 0;
  if (shape.storage != shape.precision) largest = std::max({largest, linear, s.hidden_size * s.vocab_size});
  return largest * bytes_of(shape.precision);
}

}  // namespace

std::vector<MemoryLine> rehearsed_lines(const ActivationShape& shape, MakeLayers layers,
                                        const Unrehearsed& rest) {
  Ledger ledger;
  Step step(shape, ledger, layers);
  shape.training ? step.train() : step.evaluate();
  const UseBytes peak = ledger.peak();
  const std::string tokens = format_count(shape.micro_batch_tokens) + " tokens";
  std::vector<MemoryLine> lines;
  const auto add = [&](const char* name, int64_t bytes, std::string formula) {
    if (bytes > 0) lines.push_back({name, bytes, std::move(formula)});
  };
  add("saved activations", peak[Use::saved],
      tokens + ", checkpointing " + name_of(shape.checkpointing) + ", " + name_of(shape.precision) +
          ": what is kept for backward at the fullest moment");
  add("logits chunk", peak[Use::head],
      format_count(std::min(kHeadChunk, shape.supervised_tokens)) + " positions × " +
          format_count(shape.spec.vocab_size) + " logits, " + format_count(shape.supervised_tokens) +
          " supervised rows");
  add("layer workspace", peak[Use::layer], tokens + ": gradients and recomputed tensors of one layer");
  add("weight gradients", peak[Use::weight_grads], "of half a layer, before they are added up");
  add("products", peak[Use::products], product_formula(shape.precision, shape.instructions, shape.threads));
  const int64_t rehearsed = total_bytes(lines);
  add("unrehearsed", static_cast<int64_t>(rest.share * static_cast<double>(rehearsed)) + rest.bytes,
      format_number(100 * rest.share) + " % of the above and " + format_bytes(rest.bytes) +
          ": small tensors, LibTorch's own buffers");
  add("batch", peak[Use::batch], tokens + ": ids, angles, targets");
  add("weight conversion", conversion_scratch(shape),
      "the largest weight in " + name_of(shape.precision) + " while it is used");
  return lines;
}

}  // namespace forge
