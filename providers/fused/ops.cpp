#include "providers/fused/ops.h"

#include <ATen/ATen.h>

#include <cmath>

#include "kernels/attention/attention_args.h"
#include "kernels/rms_norm/rms_norm_args.h"
#include "kernels/rope/rope_args.h"
#include "kernels/swiglu/swiglu_args.h"
#include "providers/fused/tensors.h"

namespace forge {
namespace {

// What forward and backward of attention read.
template <class Args>
Args attention_args(const Heads& heads, const BatchTensors& batch, int64_t head_dim) {
  Args args{.shape = {.type = element_of(heads.q),
                      .sequences = static_cast<int64_t>(batch.cu_seqlens.size()) - 1,
                      .cu_seqlens = batch.cu_seqlens.data(),
                      .heads = heads.q.size(1) / head_dim,
                      .kv_heads = heads.k.size(1) / head_dim,
                      .head_dim = head_dim,
                      .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)))}};
  args.q = heads.q.data_ptr(), args.q_stride = heads.q.stride(0);
  args.k = heads.k.data_ptr(), args.k_stride = heads.k.stride(0);
  args.v = heads.v.data_ptr(), args.v_stride = heads.v.stride(0);
  args.out = heads.mixed.data_ptr(), args.out_stride = heads.mixed.stride(0);
  args.lse = heads.lse.data_ptr<float>();
  return args;
}

}  // namespace

at::Tensor norm(at::Tensor h, const at::Tensor& weight, double eps, at::Tensor* inverse,
                const at::Tensor* residual) {
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
  args.eps = static_cast<float>(eps);
  args.y = y.data_ptr(), args.y_stride = y.stride(0);
  args.inverse = inverse ? inverse->data_ptr<float>() : nullptr;
  rms_norm_forward_cpu(args);
  return y;
}

void norm_backward(const at::Tensor& d_y, const at::Tensor& h, const at::Tensor& weight,
                   const at::Tensor& inverse, const Trainable* trained, at::Tensor d_h) {
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

void rotate(at::Tensor x, const BatchTensors& batch, int64_t head_dim, bool backward) {
  at::Tensor cosine = batch.cos.to(at::kFloat), sine = batch.sin.to(at::kFloat);
  rope_cpu({.type = element_of(x),
            .backward = backward,
            .tokens = x.size(0),
            .heads = x.size(1) / head_dim,
            .head_dim = head_dim,
            .rotary_dim = 2 * cosine.size(1),
            .qkv = x.data_ptr(),
            .stride = x.stride(0),
            .cosine = cosine.data_ptr<float>(),
            .sine = sine.data_ptr<float>()});
}

at::Tensor activate(const at::Tensor& gate, const at::Tensor& up) {
  at::Tensor y = at::empty_like(gate);
  swiglu_forward_cpu({.type = element_of(y),
                      .rows = y.size(0),
                      .width = y.size(1),
                      .gate = gate.data_ptr(),
                      .gate_stride = gate.stride(0),
                      .up = up.data_ptr(),
                      .up_stride = up.stride(0),
                      .y = y.data_ptr(),
                      .y_stride = y.stride(0)});
  return y;
}

void activate_backward(const at::Tensor& d_y, at::Tensor gate, at::Tensor up) {
  swiglu_backward_cpu({.type = element_of(gate),
                       .rows = gate.size(0),
                       .width = gate.size(1),
                       .d_y = d_y.data_ptr(),
                       .d_y_stride = d_y.stride(0),
                       .gate = gate.data_ptr(),
                       .gate_stride = gate.stride(0),
                       .up = up.data_ptr(),
                       .up_stride = up.stride(0)});
}

void attend(Heads& heads, const BatchTensors& batch, int64_t head_dim) {
  heads.mixed = at::empty_like(heads.q);
  heads.lse = at::empty({heads.q.size(0), heads.q.size(1) / head_dim}, at::kFloat);
  auto args = attention_args<AttentionForward>(heads, batch, head_dim);
  at::Tensor workspace = scratch(attention_forward_cpu_workspace(args));
  args.workspace = workspace.data_ptr();
  attention_forward_cpu(args);
}

HeadsGrad attend_backward(const Heads& heads, const at::Tensor& d_mixed, const BatchTensors& batch,
                          int64_t head_dim) {
  HeadsGrad grad{at::empty_like(heads.q), at::empty_like(heads.k), at::empty_like(heads.v)};
  auto args = attention_args<AttentionBackward>(heads, batch, head_dim);
  args.d_out = d_mixed.data_ptr(), args.d_out_stride = d_mixed.stride(0);
  args.d_q = grad.q.data_ptr(), args.d_q_stride = grad.q.stride(0);
  args.d_k = grad.k.data_ptr(), args.d_k_stride = grad.k.stride(0);
  args.d_v = grad.v.data_ptr(), args.d_v_stride = grad.v.stride(0);
  at::Tensor workspace = scratch(attention_backward_cpu_workspace(args));
  args.workspace = workspace.data_ptr();
  attention_backward_cpu(args);
  return grad;
}

}  // namespace forge
