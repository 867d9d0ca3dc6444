#include "kernels/dropout/dropout.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/lib/base/random.h"

namespace forge {
namespace {

// Calls write(row, feature, word) for every element; one Philox block serves four features.
template <class Write>
void for_each_word(int64_t features, uint64_t module, const RowKeys& rows, Write write) {
  int64_t count = static_cast<int64_t>(rows.example.size());
  uint64_t stream = module ^ (static_cast<uint64_t>(rows.step) * 0x9E3779B97F4A7C15ull);
  at::parallel_for(0, count, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      uint64_t key = rows.seed ^ (static_cast<uint64_t>(rows.example[row]) << 20);
      for (int64_t block = 0; block * 4 < features; ++block) {
        uint64_t index = static_cast<uint64_t>(rows.position[row]) << 32 | static_cast<uint64_t>(block);
        auto words = philox(key, stream, index);
        for (int64_t i = 0; i < 4 && block * 4 + i < features; ++i) write(row, block * 4 + i, words[i]);
      }
    }
  });
}

}  // namespace

at::Tensor counter_dropout(const at::Tensor& x, double probability, uint64_t module, const RowKeys& rows) {
  if (probability <= 0) return x;
  int64_t features = x.size(-1);
  at::Tensor mask = at::empty({x.size(0), features}, at::kFloat);
  float* out = mask.data_ptr<float>();
  uint64_t threshold = static_cast<uint64_t>(probability * 0x1p32);
  float keep = static_cast<float>(1 / (1 - probability));
  for_each_word(features, module, rows, [&](int64_t row, int64_t feature, uint32_t word) {
    out[row * features + feature] = word < threshold ? 0.0f : keep;
  });
  return x * mask.to(x.options());
}

at::Tensor counter_noise(int64_t features, uint64_t module, const RowKeys& rows) {
  at::Tensor noise = at::empty({static_cast<int64_t>(rows.example.size()), features}, at::kFloat);
  float* out = noise.data_ptr<float>();
  for_each_word(features, module, rows, [&](int64_t row, int64_t feature, uint32_t word) {
    out[row * features + feature] = static_cast<float>(static_cast<int32_t>(word)) * 0x1p-31f;
  });
  return noise;
}

}  // namespace forge
