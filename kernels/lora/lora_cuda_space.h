#pragma once
// Divides the workspace of lora_cuda.
#include <cstdint>

#include "kernels/lora/lora_args.h"

namespace forge {

struct LoraCudaSpace {
  void *s = nullptr, *d_s = nullptr;  // [tokens, ranks] in the type; s is null if S is in the type
  void* dropped = nullptr;            // [tokens, width]: drop(x), then d S A before its mask; null without dropout
  int64_t bytes = 0;
};

inline LoraCudaSpace lora_cuda_space(const LoraGroup& g, bool backward, void* workspace) {
  constexpr int64_t kAlign = 256;
  LoraCudaSpace space;
  const auto take = [&](int64_t elements) {
    void* begin = static_cast<char*>(workspace) + space.bytes;
    space.bytes += (elements * bytes_of(g.type) + kAlign - 1) / kAlign * kAlign;
    return begin;
  };
  const int64_t sums = g.tokens * g.members * g.rank;
  if (g.type != g.s_type) space.s = take(sums);
  if (backward) space.d_s = take(sums);
  if (g.dropout.probability > 0) space.dropped = take(g.tokens * g.width);
  return space;
}

}  // namespace forge
