#pragma once
// Bytes of what a decoding text keeps beside keys and values. No torch.
#include <cstdint>

#include "core/model/families/model_spec.h"

namespace forge {

// Bytes of one text in one layer with a delta rule: the last columns of its convolution, up to a
// whole line, and its matrices in fp32.
struct StateSizes {
  int64_t columns = 0, matrices = 0;
  int64_t bytes() const { return columns + matrices; }
};
inline StateSizes state_sizes(const ModelSpec& spec, int64_t element_bytes) {
  constexpr int64_t kLine = 64;
  const int64_t columns = (spec.conv_width - 1) * spec.conv_channels() * element_bytes;
  return {(columns + kLine - 1) / kLine * kLine,
          4 * spec.delta_value_heads * spec.delta_key_dim * spec.delta_value_dim};
}

}  // namespace forge
