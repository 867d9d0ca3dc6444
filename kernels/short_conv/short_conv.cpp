#include "kernels/short_conv/short_conv.h"

#include <ATen/ATen.h>

namespace forge {

at::Tensor short_conv(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      bool silu, const std::vector<int32_t>& cu_seqlens,
                      const std::vector<at::Tensor>* before) {
  const int64_t width = weight.size(-1);
  const at::Tensor taps = weight.reshape({x.size(1), width});
  std::vector<at::Tensor> texts;
  for (size_t i = 0; i + 1 < cu_seqlens.size(); ++i) {
    const int64_t first = cu_seqlens[i], count = cu_seqlens[i + 1] - first;
    if (count == 0) continue;
    const at::Tensor zeros = before ? (*before)[i] : at::zeros({width - 1, x.size(1)}, x.options());
    const at::Tensor rows = at::cat({zeros, x.narrow(0, first, count)});
    at::Tensor sum = bias.defined() ? bias.unsqueeze(0) : at::Tensor();
    for (int64_t j = 0; j < width; ++j) {
      const at::Tensor tap = rows.narrow(0, j, count) * taps.select(1, j);
      sum = sum.defined() ? sum + tap : tap;
    }
    texts.push_back(silu ? at::silu(sum) : sum);
  }
  return texts.empty() ? at::zeros_like(x) : at::cat(texts);
}

}  // namespace forge
