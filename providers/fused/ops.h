#pragma once
// The kernels a layer needs beside its linear ones, on tensors of contiguous rows.
#include <ATen/core/Tensor.h>

#include "core/model/batch_tensors.h"
#include "core/model/trainable.h"

namespace forge {

// y = norm of h [tokens, width]; with a residual h itself becomes h + residual first. `inverse` receives the factor of
// each row, fp32 [tokens], for the backward; null: not wanted.
at::Tensor norm(at::Tensor h, const at::Tensor& weight, double eps, at::Tensor* inverse,
                const at::Tensor* residual = nullptr);
// Adds to d_h, the gradient of the stream, and to the weight's where it is trained.
void norm_backward(const at::Tensor& d_y, const at::Tensor& h, const at::Tensor& weight,
                   const at::Tensor& inverse, const Trainable* trained, at::Tensor d_h);

// Rotates x [tokens, heads · head_dim] in place; backward turns a gradient the other way.
void rotate(at::Tensor x, const BatchTensors& batch, int64_t head_dim, bool backward);

// silu(gate) · up; the backward puts d gate and d up in their place.
at::Tensor activate(const at::Tensor& gate, const at::Tensor& up);
void activate_backward(const at::Tensor& d_y, at::Tensor gate, at::Tensor up);

// q, k and v [tokens, heads · head_dim] with attention's result and the logarithms of its sums, fp32 [tokens, heads].
struct Heads {
  at::Tensor q, k, v, mixed, lse;
};
struct HeadsGrad {
  at::Tensor q, k, v;
};
// Fills mixed and lse.
void attend(Heads& heads, const BatchTensors& batch, int64_t head_dim);
HeadsGrad attend_backward(const Heads& heads, const at::Tensor& d_mixed, const BatchTensors& batch,
                          int64_t head_dim);

}  // namespace forge
