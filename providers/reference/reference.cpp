#include "providers/reference/reference.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/base/error.h"
#include "core/model/decoder.h"

namespace forge {
namespace {

// A piece of a layer under autograd: a detached input, and the output whose graph leads back to it.
struct Piece {
  at::Tensor input, output;
};

struct SavedReference : SavedLayer {
  Piece attention, mlp;  // outputs undefined where they are recomputed
};

using Half = at::Tensor (*)(const Model&, int64_t, const at::Tensor&, const BatchTensors&);

class ReferenceProvider : public LayerProvider {
 public:
  ReferenceProvider(const Model& model, TrainableSet& trainables, Checkpointing checkpointing)
      : model_(model), checkpointing_(checkpointing), layers_(model.layers.size()) {
    for (Trainable& item : trainables.items())
      if (item.parameter.layer >= 0) layers_[static_cast<size_t>(item.parameter.layer)].push_back(&item);
  }

  at::Tensor layer_forward(int64_t layer, const at::Tensor& hidden, const BatchTensors& batch,
                           std::unique_ptr<SavedLayer>* saved) override {
    if (!saved) {
      c10::NoGradGuard no_grad;
      return mlp_half(model_, layer, attention_half(model_, layer, hidden, batch), batch);
    }
    auto kept = std::make_unique<SavedReference>();
    bool keep_attention = checkpointing_ != Checkpointing::full, keep_mlp = checkpointing_ == Checkpointing::none;
    at::Tensor middle = run(attention_half, layer, hidden, batch, keep_attention, kept->attention);
    at::Tensor output = run(mlp_half, layer, middle, batch, keep_mlp, kept->mlp);
    if (checkpointing_ == Checkpointing::full) kept->mlp.input = at::Tensor();  // recomputed from the layer's input
    *saved = std::move(kept);
    return output;
  }

  at::Tensor layer_backward(int64_t layer, const at::Tensor& grad, const BatchTensors& batch,
                            std::unique_ptr<SavedLayer> saved, bool needs_input_grad) override {
    auto& kept = static_cast<SavedReference&>(*saved);
    if (!kept.attention.output.defined()) {
      at::Tensor input = kept.attention.input;
      kept.mlp.input = run(attention_half, layer, input, batch, true, kept.attention);
    }
    if (!kept.mlp.output.defined()) run(mlp_half, layer, kept.mlp.input, batch, true, kept.mlp);
    // The attention half always wants the MLP half's input gradient: it may hold trainable tensors itself.
    at::Tensor middle = pull(layer, kept.mlp, grad, true);
    kept.mlp = Piece();
    return pull(layer, kept.attention, middle, needs_input_grad);
  }

 private:
  // Runs one half; with `keep` under autograd from a detached copy of the input. → the output, detached.
  at::Tensor run(Half half, int64_t layer, const at::Tensor& input, const BatchTensors& batch, bool keep, Piece& piece) {
    c10::AutoGradMode mode(keep);
    piece.input = input.detach();
    if (!keep) return half(model_, layer, piece.input, batch);
    piece.input.requires_grad_(true);
    piece.output = half(model_, layer, piece.input, batch);
    return piece.output.detach();
  }

  // d output → d input of a piece; gradients of the layer's trainables are added to their buffers.
  at::Tensor pull(int64_t layer, Piece& piece, const at::Tensor& grad, bool needs_input_grad) {
    std::vector<at::Tensor> inputs;
    if (needs_input_grad) inputs.push_back(piece.input);
    auto& items = layers_[static_cast<size_t>(layer)];
    for (Trainable* item : items) inputs.push_back(item->leaf);
    if (inputs.empty()) return {};
    auto grads = torch::autograd::grad({piece.output}, inputs, {grad}, /*retain_graph=*/false, /*create_graph=*/false,
                                       /*allow_unused=*/true);
    c10::NoGradGuard no_grad;
    size_t first = needs_input_grad ? 1 : 0;
    for (size_t i = 0; i < items.size(); ++i)
      if (grads[first + i].defined()) items[i]->grad.add_(grads[first + i]);
    return needs_input_grad ? grads[0] : at::Tensor();
  }

  const Model& model_;
  Checkpointing checkpointing_;
  std::vector<std::vector<Trainable*>> layers_;  // trainable tensors by layer
};

}  // namespace

std::unique_ptr<LayerProvider> reference_provider(const Model& model, TrainableSet& trainables,
                                                  Checkpointing checkpointing) {
  return std::make_unique<ReferenceProvider>(model, trainables, checkpointing);
}

}  // namespace forge
