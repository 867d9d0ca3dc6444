#pragma once
// The kernels' names of the functions that a list's attributes name. No torch.
#include "core/lib/base/error.h"
#include "core/graph/graph.h"
#include "kernels/activation/activation_args.h"
#include "kernels/swiglu/swiglu_args.h"

namespace forge {

inline GateFunction function_of(GateKind kind) {
  if (kind == GateKind::sigmoid) return GateFunction::sigmoid;
  if (kind == GateKind::product) return GateFunction::product;
  return kind == GateKind::silu ? GateFunction::silu : GateFunction::gelu_tanh;
}

inline Activation function_of(ActivationKind kind) {
  FORGE_CHECK(kind != ActivationKind::relu, "no kernel computes relu");
  if (kind == ActivationKind::relu2) return Activation::relu2;
  if (kind == ActivationKind::clamp) return Activation::clamp;
  return kind == ActivationKind::gelu ? Activation::gelu : Activation::gelu_tanh;
}

}  // namespace forge
