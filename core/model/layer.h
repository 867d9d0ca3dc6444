#pragma once
// The interface of a training provider: who computes a decoder layer. Everything around it (embedding, final norm,
// head, recompute, the loop) is written once.
#include <ATen/core/Tensor.h>

#include <memory>

#include "core/model/batch_tensors.h"

namespace forge {

// What a provider keeps of one layer between forward and backward.
struct SavedLayer {
  virtual ~SavedLayer() = default;
};

class LayerProvider {
 public:
  virtual ~LayerProvider() = default;

  // hidden [tokens, hidden] → [tokens, hidden]. `saved` receives what layer_backward needs; null: nothing is kept
  // (evaluation).
  virtual at::Tensor layer_forward(int64_t layer, const at::Tensor& hidden, const BatchTensors& batch,
                                   std::unique_ptr<SavedLayer>* saved) = 0;

  // d output → d hidden, both [tokens, hidden]; adds the gradients of the layer's trainable tensors to their fp32
  // buffers. Consumes `saved`, and may write over grad. With `needs_input_grad` false nothing below wants a gradient, and the result is
  // undefined.
  virtual at::Tensor layer_backward(int64_t layer, const at::Tensor& grad, const BatchTensors& batch,
                                    std::unique_ptr<SavedLayer> saved, bool needs_input_grad) = 0;
};

}  // namespace forge
