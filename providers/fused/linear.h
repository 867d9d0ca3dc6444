#pragma once
// A linear layer with its adapter as products into tensors, forward and backward by hand: what kernels/linear computes
// under autograd.
#include <ATen/core/Tensor.h>

#include <vector>

#include "core/model/trainable.h"
#include "kernels/linear/linear.h"

namespace forge {

struct FusedLinear {
  const LinearSpec* spec = nullptr;
  Trainable *weight = nullptr, *bias = nullptr;    // null: frozen
  Trainable *lora_a = nullptr, *lora_b = nullptr;  // both or neither

  // Whether the backward reads the layer's input.
  bool keeps_input() const { return weight || lora_a; }
};

FusedLinear fused_linear(const LinearSpec& spec, const std::vector<Trainable*>& trainables);

// x [tokens, in] → [tokens, out]. `s` receives S = drop(x) Aᵀ, fp32 [tokens, rank], if there is an adapter; null: not
// wanted. `rows` keys the dropout; null: none.
at::Tensor linear_forward(const FusedLinear& linear, const at::Tensor& x, const RowKeys* rows, at::Tensor* s);

// Adds the gradients of what is trained to their fp32 buffers, and gives d x: written to `d_x`, or added with `add`. An
// undefined `d_x` is not wanted. x is read only where keeps_input() is true, and may be undefined elsewhere.
void linear_backward(const FusedLinear& linear, const at::Tensor& x, const at::Tensor& s,
                     const at::Tensor& d_y, const RowKeys* rows, const at::Tensor& d_x, bool add);

}  // namespace forge
