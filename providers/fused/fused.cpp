#include "providers/fused/fused.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>

#include "kernels/attention/attention_args.h"
#include "kernels/rms_norm/rms_norm_args.h"
#include "kernels/rope/rope_args.h"
#include "kernels/swiglu/swiglu_args.h"
#include "providers/fused/linear.h"
#include "providers/fused/memory.h"

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
  at::Tensor q, k, v;             // [tokens, heads · head_dim], rotated
  at::Tensor mixed, lse;          // attention's result [tokens, heads · head_dim]; fp32 [tokens, heads]
  at::Tensor s_q, s_k, s_v, s_o;  // adapters' x A
};
struct MlpKept {
  at::Tensor gate, up;  // [tokens, intermediate]
  at::Tensor s_gate, s_up;
};

struct SavedFused : SavedLayer {
  at::Tensor input;         // [tokens, hidden]
  AttentionKept attention;  // q undefined: recomputed
  at::Tensor middle,
      inverse;        // the stream after attention [tokens, hidden], and its norm's factor; or recomputed
  MlpKept mlp;        // gate undefined: recomputed
  at::Tensor s_down;  // small, and else a product to make again
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
    at::Tensor x = norm(middle, l.weights->post_attention_norm, saved ? &kept->inverse : nullptr, &hidden);
    at::Tensor output = mlp(l, std::move(x), batch, *kept, saved != nullptr).add_(middle);
    if (!saved) return output;
    kept->input = hidden;
    kept->middle = middle;
    if (checkpointing_ != Checkpointing::none) kept->mlp = {};
    if (checkpointing_ == Checkpointing::full)
      kept->attention = {}, kept->middle = kept->inverse = at::Tensor();
    *saved = std::move(kept);
    return output;
  }

  at::Tensor layer_backward(int64_t layer, const at::Tensor& grad, const BatchTensors& batch,
                            std::unique_ptr<SavedLayer> saved, bool needs_input_grad) override {
    c10::NoGradGuard no_grad;
    const FusedLayer& l = layers_[static_cast<size_t>(layer)];
    auto& kept = static_cast<SavedFused&>(*saved);
    at::Tensor x;
    if (!kept.attention.q.defined()) {
      kept.middle = attention(l, kept.input, batch, &kept.attention);
      x = norm(kept.middle, l.weights->post_attention_norm, &kept.inverse, &kept.input);
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

  // h's norm; with a residual h itself becomes h + residual first.
  at::Tensor norm(const at::Tensor& h, const at::Tensor& weight, at::Tensor* inverse,
                  const at::Tensor* residual = nullptr) const {
    at::Tensor y = at::empty_like(h);
    if (inverse) *inverse = at::empty({h.size(0)}, at::kFloat);
    RmsNormForward args{.type = element_of(h),
                        .rows = h.size(0),
                        .width = h.size(1),
                        .x = h.data_ptr(),
                        .x_stride = h.stride(0)};
    if (residual) {
      args.residual = residual->data_ptr(), args.residual_stride = residual->stride(0);
      args.h = h.data_ptr(), args.h_stride = h.stride(0);
    }
    args.weight = weight.data_ptr();
    args.eps = static_cast<float>(model_.spec.rms_norm_eps);
    args.y = y.data_ptr(), args.y_stride = y.stride(0);
    args.inverse = inverse ? inverse->data_ptr<float>() : nullptr;
    rms_norm_forward_cpu(args);
    return y;
  }

  // Adds to d_h, the gradient of the stream.
  void norm_backward(const at::Tensor& d_y, const at::Tensor& h, const at::Tensor& weight,
                     const at::Tensor& inverse, const Trainable* trained, const at::Tensor& d_h) const {
    rms_norm_backward_cpu({.type = element_of(h),
                           .rows = h.size(0),
                           .width = h.size(1),
                           .d_y = d_y.data_ptr(),
                           .d_y_stride = d_y.stride(0),
                           .h = h.data_ptr(),
                           .h_stride = h.stride(0),
                           .weight = weight.data_ptr(),
                           .inverse = inverse.data_ptr<float>(),
                           .d_h = d_h.data_ptr(),
                           .d_h_stride = d_h.stride(0),
                           .accumulate = true,
                           .d_weight = trained ? trained->grad.data_ptr<float>() : nullptr});
  }

  // x [tokens, heads · head_dim], in place.
  void rotate(const at::Tensor& x, const BatchTensors& batch, bool backward) const {
    at::Tensor cosine = batch.cos.to(at::kFloat), sine = batch.sin.to(at::kFloat);
    rope_cpu({.type = element_of(x),
              .backward = backward,
              .tokens = x.size(0),
              .heads = x.size(1) / model_.spec.head_dim,
              .head_dim = model_.spec.head_dim,
              .rotary_dim = 2 * cosine.size(1),
              .qkv = x.data_ptr(),
              .stride = x.stride(0),
              .cosine = cosine.data_ptr<float>(),
              .sine = sine.data_ptr<float>()});
  }

  // What forward and backward of attention read.
  template <class Args>
  Args attention_args(const AttentionKept& kept, const BatchTensors& batch) const {
    Args args{.shape = attention_shape(kept.q, batch)};
    args.q = kept.q.data_ptr(), args.q_stride = kept.q.stride(0);
    args.k = kept.k.data_ptr(), args.k_stride = kept.k.stride(0);
    args.v = kept.v.data_ptr(), args.v_stride = kept.v.stride(0);
    args.out = kept.mixed.data_ptr(), args.out_stride = kept.mixed.stride(0);
    args.lse = kept.lse.data_ptr<float>();
    return args;
  }

  AttentionShape attention_shape(const at::Tensor& q, const BatchTensors& batch) const {
    return {.type = element_of(q),
            .sequences = static_cast<int64_t>(batch.cu_seqlens.size()) - 1,
            .cu_seqlens = batch.cu_seqlens.data(),
            .heads = model_.spec.num_heads,
            .kv_heads = model_.spec.num_kv_heads,
            .head_dim = model_.spec.head_dim,
            .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(model_.spec.head_dim)))};
  }

  // hidden [tokens, hidden] → what attention adds to it.
  at::Tensor attention(const FusedLayer& l, const at::Tensor& hidden, const BatchTensors& batch,
                       AttentionKept* saved) const {
    AttentionKept local;
    AttentionKept& kept = saved ? *saved : local;
    const RowKeys* rows = batch.dropout_rows();
    at::Tensor x = norm(hidden, l.weights->input_norm, &kept.inverse);
    kept.q = forward(l.q, x, rows, &kept.s_q);
    kept.k = forward(l.k, x, rows, &kept.s_k);
    kept.v = forward(l.v, x, rows, &kept.s_v);
    x = at::Tensor();
    rotate(kept.q, batch, false);
    rotate(kept.k, batch, false);
    kept.mixed = at::empty_like(kept.q);
    kept.lse = at::empty({hidden.size(0), model_.spec.num_heads}, at::kFloat);
    auto args = attention_args<AttentionForward>(kept, batch);
    at::Tensor workspace = scratch(attention_forward_cpu_workspace(args));
    args.workspace = workspace.data_ptr();
    attention_forward_cpu(args);
    workspace = at::Tensor();
    return forward(l.o, kept.mixed, rows, &kept.s_o);
  }

  at::Tensor activate(const MlpKept& kept) const {
    at::Tensor y = at::empty_like(kept.gate);
    swiglu_forward_cpu({.type = element_of(y),
                        .rows = y.size(0),
                        .width = y.size(1),
                        .gate = kept.gate.data_ptr(),
                        .gate_stride = kept.gate.stride(0),
                        .up = kept.up.data_ptr(),
                        .up_stride = kept.up.stride(0),
                        .y = y.data_ptr(),
                        .y_stride = y.stride(0)});
    return y;
  }

  void gate_and_up(const FusedLayer& l, const at::Tensor& x, const BatchTensors& batch, MlpKept& kept) const {
    kept.gate = forward(l.gate, x, batch.dropout_rows(), &kept.s_gate);
    kept.up = forward(l.up, x, batch.dropout_rows(), &kept.s_up);
  }

  // The norm's result x [tokens, hidden] → what the MLP adds to the stream.
  at::Tensor mlp(const FusedLayer& l, at::Tensor x, const BatchTensors& batch, SavedFused& kept,
                 bool keep) const {
    gate_and_up(l, x, batch, kept.mlp);
    x = at::Tensor();
    at::Tensor y = activate(kept.mlp);
    if (!keep || checkpointing_ != Checkpointing::none) kept.mlp = {};
    return forward(l.down, y, batch.dropout_rows(), &kept.s_down);
  }

  // grad: d output in, d middle out. `x`: the norm's result, if it is at hand.
  void mlp_backward(const FusedLayer& l, const at::Tensor& grad, const BatchTensors& batch, SavedFused& kept,
                    at::Tensor x) const {
    const RowKeys* rows = batch.dropout_rows();
    const bool again = !kept.mlp.gate.defined();
    if (!x.defined() && (again || l.gate.keeps_input() || l.up.keeps_input()))
      x = norm(kept.middle, l.weights->post_attention_norm, nullptr);
    if (again) gate_and_up(l, x, batch, kept.mlp);
    at::Tensor y = l.down.keeps_input() ? activate(kept.mlp) : at::Tensor();
    at::Tensor d_y = at::empty_like(kept.mlp.gate);
    backward(l.down, y, kept.s_down, grad, rows, d_y, false);
    y = at::Tensor();
    const at::Tensor &gate = kept.mlp.gate, &up = kept.mlp.up;  // their gradients from here on
    swiglu_backward_cpu({.type = element_of(gate),
                         .rows = gate.size(0),
                         .width = gate.size(1),
                         .d_y = d_y.data_ptr(),
                         .d_y_stride = d_y.stride(0),
                         .gate = gate.data_ptr(),
                         .gate_stride = gate.stride(0),
                         .up = up.data_ptr(),
                         .up_stride = up.stride(0)});
    d_y = at::Tensor();
    at::Tensor d_x = at::empty_like(grad);
    backward(l.gate, x, kept.mlp.s_gate, gate, rows, d_x, false);
    backward(l.up, x, kept.mlp.s_up, up, rows, d_x, true);
    kept.mlp = {};
    norm_backward(d_x, kept.middle, l.weights->post_attention_norm, kept.inverse, l.post_norm, grad);
    kept.middle = kept.inverse = at::Tensor();
  }

  // grad: d middle in, d input out. → whether it is that: without `needs_input_grad` it is left halfway.
  bool attention_backward(const FusedLayer& l, const at::Tensor& grad, const BatchTensors& batch,
                          SavedFused& saved, bool needs_input_grad) const {
    const RowKeys* rows = batch.dropout_rows();
    AttentionKept& kept = saved.attention;
    at::Tensor d_mixed = at::empty_like(kept.mixed);
    backward(l.o, kept.mixed, kept.s_o, grad, rows, d_mixed, false);
    at::Tensor d_q = at::empty_like(kept.q), d_k = at::empty_like(kept.k), d_v = at::empty_like(kept.v);
    differentiate_attention(batch, kept, d_mixed, d_q, d_k, d_v);
    d_mixed = at::Tensor();
    kept.q = kept.k = kept.v = kept.mixed = kept.lse = at::Tensor();
    rotate(d_q, batch, true);
    rotate(d_k, batch, true);
    at::Tensor x, d_x;
    if (l.q.keeps_input() || l.k.keeps_input() || l.v.keeps_input())
      x = norm(saved.input, l.weights->input_norm, nullptr);
    if (needs_input_grad || l.input_norm) d_x = at::empty_like(grad);
    backward(l.q, x, kept.s_q, d_q, rows, d_x, false);
    backward(l.k, x, kept.s_k, d_k, rows, d_x, true);
    backward(l.v, x, kept.s_v, d_v, rows, d_x, true);
    if (d_x.defined())
      norm_backward(d_x, saved.input, l.weights->input_norm, kept.inverse, l.input_norm, grad);
    return needs_input_grad;
  }

  void differentiate_attention(const BatchTensors& batch, const AttentionKept& kept,
                               const at::Tensor& d_mixed, const at::Tensor& d_q, const at::Tensor& d_k,
                               const at::Tensor& d_v) const {
    auto args = attention_args<AttentionBackward>(kept, batch);
    args.d_out = d_mixed.data_ptr(), args.d_out_stride = d_mixed.stride(0);
    args.d_q = d_q.data_ptr(), args.d_q_stride = d_q.stride(0);
    args.d_k = d_k.data_ptr(), args.d_k_stride = d_k.stride(0);
    args.d_v = d_v.data_ptr(), args.d_v_stride = d_v.stride(0);
    at::Tensor workspace = scratch(attention_backward_cpu_workspace(args));
    args.workspace = workspace.data_ptr();
    attention_backward_cpu(args);
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
