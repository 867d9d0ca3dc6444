#include "core/model/adapter/first_values.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/lib/base/random.h"

namespace forge {
namespace {

template <class Draw>
void fill(at::Tensor& target, Draw draw) {
  at::Tensor values = at::empty(target.sizes(), at::kFloat);
  float* out = values.data_ptr<float>();
  at::parallel_for(0, values.numel(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = static_cast<float>(draw(static_cast<uint64_t>(i)));
  });
  target.copy_(values);
}

}  // namespace

void draw_uniform(at::Tensor values, int64_t seed, const std::string& stream, double bound) {
  const uint64_t key = static_cast<uint64_t>(seed), of = stream_of(stream);
  fill(values, [&](uint64_t i) { return (2 * uniform(key, of, i) - 1) * bound; });
}

void draw_normal(at::Tensor values, int64_t seed, const std::string& stream, double deviation) {
  const uint64_t key = static_cast<uint64_t>(seed), of = stream_of(stream);
  fill(values, [&](uint64_t i) { return normal(key, of, i) * deviation; });
}

}  // namespace forge
