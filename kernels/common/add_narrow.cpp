#include "kernels/common/add_narrow.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

namespace forge {

void add_narrow(at::Tensor& sum, const at::Tensor& narrow) {
  if (!sum.device().is_cpu()) {
    sum.add_(narrow);
    return;
  }
  const auto visit = [&](auto* values) {
    float* sums = sum.data_ptr<float>();
    at::parallel_for(0, sum.numel(), 1 << 14, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sums[i] += static_cast<float>(values[i]);
    });
  };
  if (narrow.scalar_type() == at::kBFloat16)
    visit(narrow.const_data_ptr<at::BFloat16>());
  else
    visit(narrow.const_data_ptr<at::Half>());
}

}  // namespace forge
