#pragma once
// A step rehearsed without tensors: everything that it allocates, held and freed in its own order, so that the peak is the
// engine's and not an estimate of it. What lies around the layers follows core/train/network.cpp and kernels/ line by line;
// each provider rehearses its own layer. tests/memory compares both; bench/memory measures them on real sizes.
#include <memory>
#include <string>
#include <vector>

#include "core/plan/memory.h"
#include "core/plan/product_scratch.h"
#include "providers/layer_table.h"
#include "providers/ledger.h"

namespace forge {

// The layers as a LayerProvider computes them.
class RehearsedLayers {
 public:
  RehearsedLayers(const ActivationShape& shape, Ledger& ledger)
      : shape_(shape),
        ledger_(ledger),
        tokens_(shape.micro_batch_tokens),
        element_(bytes_of(shape.precision)),
        products_(shape.instructions, shape.threads) {}
  virtual ~RehearsedLayers() = default;

  // hidden → hidden, [tokens, hidden]. `saved` receives what backward needs; null: nothing is kept.
  virtual Held forward(const RehearsedLayer& layer, const Held& hidden, Held* saved) = 0;
  // d output → d hidden.
  virtual Held backward(const RehearsedLayer& layer, const Held& grad, Held saved, bool needs_input_grad) = 0;

  // What LibTorch takes beside the result while it multiplies.
  void multiply(const Product& product) {
    if (narrow() && !shape_.cuda) ledger_.hold(Use::products, products_.bytes(product));
  }

 protected:
  bool narrow() const { return element_ < 4; }  // computes in bf16 or fp16, norms in fp32
  Held wide(Use use, int64_t width) { return ledger_.hold(use, element_ * tokens_ * width); }
  // x W: [tokens, in] → [tokens, out].
  Held product(Use use, int64_t in, int64_t out) {
    Held result = wide(use, out);
    multiply({tokens_, in, out});
    return result;
  }
  // d Yᵀ X, [out, in].
  Held weight_grad(int64_t in, int64_t out) {
    Held result = ledger_.hold(Use::weight_grads, element_ * in * out);
    multiply({out, tokens_, in, true});
    return result;
  }

  const ActivationShape& shape_;
  Ledger& ledger_;
  int64_t tokens_, element_;
  ProductScratch products_;
};

using MakeLayers = std::unique_ptr<RehearsedLayers> (*)(const ActivationShape& shape, Ledger& ledger);

// What is added for small tensors and LibTorch's own buffers, by measurement.
struct Unrehearsed {
  double share = 0;
  int64_t bytes = 0;
};

// Memory of one micro-batch of training, or of one batch of an evaluation, at its highest moment.
std::vector<MemoryLine> rehearsed_lines(const ActivationShape& shape, MakeLayers layers,
                                        const Unrehearsed& rest);

template <class Layers>
std::vector<MemoryLine> rehearsed_lines(const ActivationShape& shape, const Unrehearsed& rest) {
  const MakeLayers make = [](const ActivationShape& s, Ledger& ledger) -> std::unique_ptr<RehearsedLayers> {
    return std::make_unique<Layers>(s, ledger);
  };
  return rehearsed_lines(shape, make, rest);
}

}  // namespace forge
