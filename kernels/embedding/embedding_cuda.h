#pragma once
// The embedding's gradient on a GPU: d_weight[ids[t]] += d_y[t] over all tokens t; a negative id is left out.
//
// With `order` the tokens of each id are added one after the other, in the order given: the result is the
// same every time. Without it all tokens add at once with atomics, fast also when one id fills the batch, and
// the rounding varies. Bytes: tokens · width · (s + 8), s the bytes of an element.
#include "kernels/common/element.h"
#include "kernels/device/launch.h"

namespace forge {

struct EmbeddingGradient {
  Element type = Element::f32;
  int64_t tokens = 0, width = 0;
  const void* d_y = nullptr;  // [tokens, width], rows `stride` elements apart
  int64_t stride = 0;
  const int64_t* ids = nullptr;    // [tokens], below the vocabulary's size
  const int64_t* order = nullptr;  // [tokens] token numbers sorted by id, stable; or null: atomics
  float* d_weight = nullptr;       // [vocab, width], added to
};
void embedding_gradient_cuda(const EmbeddingGradient& args, CudaStream stream);

}  // namespace forge
