#pragma once
// A linear layer with everything an adapter makes of it (Hu et al., LoRA, 2021; Liu et al., DoRA,
// 2024):
//
//   y = x Wᵀ + bias + scale · drop(x) Aᵀ Bᵀ                                            LoRA
//   y = (x Wᵀ + scale · drop(x) Aᵀ Bᵀ) · m / ‖W + scale · B A‖ + bias                  DoRA, norm per output row
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernels/dropout/dropout.h"
#include "kernels/quantize/quantize.h"

namespace forge {

struct LinearSpec {
  at::Tensor
      weight;  // [out_features, in_features], in x's type or, if frozen, another; undefined if quantised
  QuantizedWeight quantized;  // the frozen weight in 4 or 8 bits, in the place of `weight`
  at::Tensor bias;            // [out_features], or undefined
  at::Tensor lora_a;          // [rank, in_features], or undefined: no adapter
  at::Tensor lora_b;          // [out_features, rank]
  at::Tensor magnitude;       // [out_features]: DoRA's m, or undefined
  double scale = 0;           // alpha / rank, or alpha / sqrt(rank)
  double dropout = 0;
  uint64_t dropout_stream = 0;  // stream_of(module name)

  bool adapted() const { return lora_a.defined(); }
};

// x [tokens, in_features] → [tokens, out_features]. `rows` keys the dropout; null: no dropout
// (evaluation). Differentiable in x, weight, bias, A, B and m; DoRA's norm counts as a constant, as
// the paper and PEFT have it. A weight that is quantised or of another type is converted to x's
// type in the forward and again in the backward, and its bias is frozen too.
at::Tensor linear(const LinearSpec& spec, const at::Tensor& x, const RowKeys* rows);

// Compute linear() in two steps: the layer without DoRA's rescaling, and without the bias if there
// is rescaling; then the rescaling of y [tokens, out_features], which adds the bias.
at::Tensor unscaled_linear(const LinearSpec& spec, const at::Tensor& x, const RowKeys* rows);
at::Tensor rescaled(const LinearSpec& spec, at::Tensor y);
// Writes unscaled_linear() to y [tokens, out_features], whose rows may have a stride, and returns
// drop(x) Aᵀ [tokens, rank], undefined without an adapter. Not differentiable.
at::Tensor linear_into(const at::Tensor& y, const LinearSpec& spec, const at::Tensor& x, const RowKeys* rows);

// Computes the experts of a layer whose matrices are one tensor: weight [experts, in, out], or with
// `out_first` [experts, out, in], bias [experts, out], A [experts · rank, in] and B [out, rank ·
// experts]. Expert e has A's rows e · rank … and B's columns e, e + experts, …, the layout of
// PEFT's target_parameters. x is [rows, in], the experts' rows one after the other, `counts` of
// each → [rows, out]. Differentiable like linear().
at::Tensor joined_linear(const LinearSpec& spec, const at::Tensor& x,
                         const std::vector<int64_t>& counts, bool out_first);

// Returns the weight without its adapter, converted to `type`, in which it is multiplied with an x
// of that type. [out_features, in_features]
at::Tensor base_weight(const LinearSpec& spec, c10::ScalarType type);

}  // namespace forge
