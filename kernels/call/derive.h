#pragma once
// Rules of gradients that many ops share, for OpRecord::derive:
//
//   .derive = derive::added<&ops::norm_backward, 1, 1>
//
// The op kKind reads the gradient of the forward's result, then the forward's first kInputs inputs,
// then kResults of its results after the first.
#include "core/graph/gradients.h"

namespace forge::derive {

// Returns the op without its results.
template <OpKind kKind, size_t kInputs, size_t kResults = 0>
Op gradient_op(Gradients& g, const Op& forward) {
  const bool undivided = forward.parts.empty();
  Op op = g.with_modules(kKind, forward, {undivided ? g.gradient(forward.out[0]) : g.whole_gradient(forward)});
  for (size_t i = 0; i < kInputs; ++i) op.in.push_back(g.need(forward.in[i]));
  for (size_t i = 1; i <= kResults; ++i) op.in.push_back(g.need(forward.out[i]));
  return op;
}

// Makes the op add to the gradient that the first input has so far, or write the first gradient.
template <OpKind kKind, size_t kInputs = 0, size_t kResults = 0>
void added(Gradients& g, const Op& forward) {
  g.contribute(gradient_op<kKind, kInputs, kResults>(g, forward), forward.in[0]);
}

// Makes the op write a new gradient of every input.
template <OpKind kKind, size_t kInputs = 0, size_t kResults = 0>
void apart(Gradients& g, const Op& forward) {
  Op op = gradient_op<kKind, kInputs, kResults>(g, forward);
  for (ValueId in : forward.in) op.out.push_back(g.new_gradient(in));
  g.push(std::move(op));
}

// Makes the op read every input and write its gradient over it.
template <OpKind kKind>
void in_place(Gradients& g, const Op& forward) {
  Op op = gradient_op<kKind, 0>(g, forward);
  for (ValueId in : forward.in) op.in.push_back(g.need(in));
  for (size_t i = 0; i < forward.in.size(); ++i) {
    const int32_t place = g.graph.value(op.in[i + 1]).buffer;
    g.mirror(forward.in[i], place);
    op.out.push_back(g.gradient_in(forward.in[i], place));
  }
  g.push(std::move(op));
}

}  // namespace forge::derive
