#pragma once
// A module of a step as the kernels read it: pointers and numbers. No torch.
#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/quantize/quantize_args.h"

namespace forge {

struct OpModule {
  // The weight as it is held: [out, in] for a linear layer, [vocabulary, hidden] for the embedding,
  // [width] for a norm.
  const void* weight = nullptr;  // null: in blocks
  Element held = Element::f32;
  // Elements between the rows of a matrix; more than its width if adapters have room beside it.
  int64_t stride = 0;
  DequantizeBlocks blocks;
  bool fp8 = false;  // blocks are rows in E4M3
  int64_t stored_bytes = 0;  // bytes of blocks that come from a GGUF
  int64_t rows = 0;
  const void *bias = nullptr, *a = nullptr, *b = nullptr, *magnitude = nullptr;  // of the compute type; null: none
  float scale = 0;
  double dropout = 0;
  uint64_t dropout_stream = 0;
  // Gradients of trained tensors, fp32; null: frozen, or before the first zero_grad().
  float *d_weight = nullptr, *d_bias = nullptr, *d_a = nullptr, *d_b = nullptr, *d_magnitude = nullptr;

  bool operator==(const OpModule&) const = default;
};

}  // namespace forge
