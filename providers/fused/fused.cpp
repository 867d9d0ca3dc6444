#include "providers/fused/fused.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "providers/fused/linear.h"
#include "providers/fused/ops.h"

namespace forge {
namespace {

// A layer's weights with what of them is trained.
struct FusedLayer {
  const LayerWeights* weights = nullptr;
  FusedLinear q, k, v, o, gate, up, down;
  Trainable *input_norm = nullptr, *post_norm = nullptr;  // null: frozen
};

struct AttentionKept {
  at::Tensor inverse;             // fp32 [tokens], of the input's norm
  Heads heads;                    // rotated
  at::Tensor s_q, s_k, s_v, s_o;  // adapters' x A
};
struct MlpKept {
  at::Tensor gate, up;  // [tokens, intermediate]
  at::Tensor s_gate, s_up;
};

struct SavedFused : SavedLayer {
  at::Tensor input;         // [tokens, hidden]
  AttentionKept attention;  // without heads: recomputed
  at::Tensor middle;        // the stream after attention [tokens, hidden]; or recomputed
  at::Tensor inverse;       // of its norm
  MlpKept mlp;              // without gate: recomputed
  at::Tensor s_down;        // small, and else a product to make again
};

class FusedProvider : public LayerProvider {
 public:
  FusedProvider(const Model& model, TrainableSet& trainables, Checkpointing checkpointing)
      : model_(model), checkpointing_(checkpointing) {
    std::vector<std::vector<Trainable*>> items(model.layers.size());
    for (Trainable& item : trainables.items())
      if (item.parameter.layer >= 0) items[static_cast<size_t>(item.parameter.layer)].push_back(&item);
    for (size_t i = 0; i < model.layers.size(); ++i) layers_.push_back(layer_of(model.layers[i], items[i]));
  }

  at::Tensor layer_forward(int64_t layer, const at::Tensor& hidden, const BatchTensors& batch,
                           std::unique_ptr<SavedLayer>* saved) override {
    c10::NoGradGuard no_grad;
    const FusedLayer& l = layers_[static_cast<size_t>(layer)];
    auto kept = std::make_unique<SavedFused>();
    at::Tensor middle = attention(l, hidden, batch, saved ? &kept->attention : nullptr);
    at::Tensor x = post_norm(l, middle, saved ? &kept->inverse : nullptr, &hidden);
    at::Tensor output = mlp(l, std::move(x), batch, *kept, saved != nullptr).add_(middle);
    if (!saved) return output;
    kept->input = hidden;
    kept->middle = middle;
    if (checkpointing_ == Checkpointing::full) {
      kept->attention = {};
      kept->middle = kept->inverse = at::Tensor();
    }
    *saved = std::move(kept);
    return output;
  }

  at::Tensor layer_backward(int64_t layer, const at::Tensor& grad, const BatchTensors& batch,
                            std::unique_ptr<SavedLayer> saved, bool needs_input_grad) override {
    c10::NoGradGuard no_grad;
    const FusedLayer& l = layers_[static_cast<size_t>(layer)];
    auto& kept = static_cast<SavedFused&>(*saved);
    at::Tensor x;
    if (!kept.attention.heads.q.defined()) {
      kept.middle = attention(l, kept.input, batch, &kept.attention);
      x = post_norm(l, kept.middle, &kept.inverse, &kept.input);
    }
    mlp_backward(l, grad, batch, kept, std::move(x));
    return attention_backward(l, grad, batch, kept, needs_input_grad) ? grad : at::Tensor();
  }

 private:
  static FusedLayer layer_of(const LayerWeights& w, const std::vector<Trainable*>& items) {
    FusedLayer layer{.weights = &w,
                     .q = fused_linear(w.q_proj, items),
                     .k = fused_linear(w.k_proj, items),
                     .v = fused_linear(w.v_proj, items),
                     .o = fused_linear(w.o_proj, items),
                     .gate = fused_linear(w.gate_proj, items),
                     .up = fused_linear(w.up_proj, items),
                     .down = fused_linear(w.down_proj, items)};
    for (Trainable* item : items) {
      if (item->leaf.is_same(w.input_norm)) layer.input_norm = item;
      if (item->leaf.is_same(w.post_attention_norm)) layer.post_norm = item;
    }
    return layer;
  }

  at::Tensor input_norm(const FusedLayer& l, const at::Tensor& hidden, at::Tensor* inverse) const {
    return norm(hidden, l.weights->input_norm, model_.spec.rms_norm_eps, inverse);
  }
  at::Tensor post_norm(const FusedLayer& l, const at::Tensor& middle, at::Tensor* inverse,
                       const at::Tensor* residual = nullptr) const {
    return norm(middle, l.weights->post_attention_norm, model_.spec.rms_norm_eps, inverse, residual);
  }

  // hidden [tokens, hidden] → what attention adds to it.
  at::Tensor attention(const FusedLayer& l, const at::Tensor& hidden, const BatchTensors& batch,
                       AttentionKept* saved) const {
    AttentionKept local;
    AttentionKept& kept = saved ? *saved : local;
    Heads& heads = kept.heads;
    const RowKeys* rows = batch.dropout_rows();
    at::Tensor x = input_norm(l, hidden, &kept.inverse);
    heads.q = linear_forward(l.q, x, rows, &kept.s_q);
    heads.k = linear_forward(l.k, x, rows, &kept.s_k);
    heads.v = linear_forward(l.v, x, rows, &kept.s_v);
    x = at::Tensor();
    rotate(heads.q, batch, model_.spec.head_dim, false);
    rotate(heads.k, batch, model_.spec.head_dim, false);
    attend(heads, batch, model_.spec.head_dim);
    return linear_forward(l.o, heads.mixed, rows, &kept.s_o);
  }

  void gate_and_up(const FusedLayer& l, const at::Tensor& x, const BatchTensors& batch, MlpKept& kept) const {
    kept.gate = linear_forward(l.gate, x, batch.dropout_rows(), &kept.s_gate);
    kept.up = linear_forward(l.up, x, batch.dropout_rows(), &kept.s_up);
  }

  // The norm's result x [tokens, hidden] → what the MLP adds to the stream.
  at::Tensor mlp(const FusedLayer& l, at::Tensor x, const BatchTensors& batch, SavedFused& kept,
                 bool keep) const {
    gate_and_up(l, x, batch, kept.mlp);
    x = at::Tensor();
    at::Tensor y = activate(kept.mlp.gate, kept.mlp.up);
    if (!keep || checkpointing_ != Checkpointing::none) kept.mlp = {};
    return linear_forward(l.down, y, batch.dropout_rows(), &kept.s_down);
  }

  // grad: d output in, d middle out. `x`: the norm's result, if it is at hand.
  void mlp_backward(const FusedLayer& l, const at::Tensor& grad, const BatchTensors& batch, SavedFused& kept,
                    at::Tensor x) const {
    const RowKeys* rows = batch.dropout_rows();
    MlpKept& m = kept.mlp;
    const bool again = !m.gate.defined();
    if (!x.defined() && (again || l.gate.keeps_input() || l.up.keeps_input()))
      x = post_norm(l, kept.middle, nullptr);
    if (again) gate_and_up(l, x, batch, m);
    at::Tensor y = l.down.keeps_input() ? activate(m.gate, m.up) : at::Tensor();
    at::Tensor d_y = at::empty_like(m.gate);
    linear_backward(l.down, y, kept.s_down, grad, rows, d_y, false);
    y = at::Tensor();
    activate_backward(d_y, m.gate, m.up);  // which are their gradients from here on
    d_y = at::Tensor();
    at::Tensor d_x = at::empty_like(grad);
    linear_backward(l.gate, x, m.s_gate, m.gate, rows, d_x, false);
    linear_backward(l.up, x, m.s_up, m.up, rows, d_x, true);
    m = {};
    norm_backward(d_x, kept.middle, l.weights->post_attention_norm, kept.inverse, l.post_norm, grad);
    kept.middle = kept.inverse = at::Tensor();
  }

  // grad: d middle in, d input out. → whether it is that: without `needs_input_grad` it is left halfway.
  bool attention_backward(const FusedLayer& l, const at::Tensor& grad, const BatchTensors& batch,
                          SavedFused& saved, bool needs_input_grad) const {
    const RowKeys* rows = batch.dropout_rows();
    AttentionKept& kept = saved.attention;
    at::Tensor d_mixed = at::empty_like(kept.heads.mixed);
    linear_backward(l.o, kept.heads.mixed, kept.s_o, grad, rows, d_mixed, false);
    HeadsGrad d = attend_backward(kept.heads, d_mixed, batch, model_.spec.head_dim);
    d_mixed = at::Tensor();
    kept.heads = {};
    rotate(d.q, batch, model_.spec.head_dim, true);
    rotate(d.k, batch, model_.spec.head_dim, true);
    at::Tensor x, d_x;
    if (l.q.keeps_input() || l.k.keeps_input() || l.v.keeps_input()) x = input_norm(l, saved.input, nullptr);
    if (needs_input_grad || l.input_norm) d_x = at::empty_like(grad);
    linear_backward(l.q, x, kept.s_q, d.q, rows, d_x, false);
    linear_backward(l.k, x, kept.s_k, d.k, rows, d_x, true);
    linear_backward(l.v, x, kept.s_v, d.v, rows, d_x, true);
    if (d_x.defined())
      norm_backward(d_x, saved.input, l.weights->input_norm, kept.inverse, l.input_norm, grad);
    return needs_input_grad;
  }

  const Model& model_;
  Checkpointing checkpointing_;
  std::vector<FusedLayer> layers_;
};

}  // namespace

std::unique_ptr<LayerProvider> fused_provider(const Model& model, TrainableSet& trainables,
                                              Checkpointing checkpointing) {
  return std::make_unique<FusedProvider>(model, trainables, checkpointing);
}

}  // namespace forge
