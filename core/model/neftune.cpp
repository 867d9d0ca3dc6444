#include "core/model/neftune.h"

#include <ATen/ATen.h>

#include <cmath>

#include "core/lib/base/random.h"

namespace forge {

at::Tensor neftune_noise(const BatchTensors& batch, int64_t hidden_size, double alpha) {
  at::Tensor noise = counter_noise(hidden_size, stream_of("neftune"), batch.rows);
  at::Tensor magnitude = at::empty({batch.tokens, 1}, at::kFloat);
  for (size_t s = 0; s + 1 < batch.cu_seqlens.size(); ++s) {
    const int64_t begin = batch.cu_seqlens[s], length = batch.cu_seqlens[s + 1] - begin;
    magnitude.narrow(0, begin, length).fill_(alpha / std::sqrt(static_cast<double>(length * hidden_size)));
  }
  return noise * magnitude;
}

}  // namespace forge
