#include "core/model/compare.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "core/lib/base/error.h"

namespace forge {

at::Tensor logits_along(Decoder& decoder, const std::vector<std::vector<int32_t>>& texts) {
  c10::NoGradGuard no_grad;
  std::vector<int64_t> begins;
  int64_t positions = 0;
  size_t longest = 0;
  for (const std::vector<int32_t>& text : texts) {
    begins.push_back(positions);
    positions += static_cast<int64_t>(text.size());
    longest = std::max(longest, text.size());
  }
  at::Tensor all;
  for (size_t step = 0; step < longest; ++step) {
    std::vector<NewTokens> tokens;
    for (size_t i = 0; i < texts.size(); ++i)
      if (step < texts[i].size()) tokens.push_back({static_cast<int64_t>(i), {texts[i][step]}});
    const at::Tensor logits = decoder.next_logits(tokens).to(at::kCPU);
    if (!all.defined()) all = at::empty({positions, logits.size(1)}, at::kFloat);
    for (size_t row = 0; row < tokens.size(); ++row)
      all.select(0, begins[static_cast<size_t>(tokens[row].sequence)] + static_cast<int64_t>(step))
          .copy_(logits.select(0, static_cast<int64_t>(row)));
  }
  for (size_t i = 0; i < texts.size(); ++i) decoder.release(static_cast<int64_t>(i));
  return all;
}

LogitDifference logit_difference(const at::Tensor& a, const at::Tensor& b) {
  c10::NoGradGuard no_grad;
  FORGE_CHECK(a.sizes() == b.sizes() && a.numel() > 0, "logits of two models for different texts");
  // A maximum ignores values that are not a number, so they are looked for first.
  if (!at::isfinite(a).all().item<bool>())
    throw Error(ErrorKind::environment, "the original's logits are not finite, so nothing can be compared with them")
        .hint("its weights are damaged or too large, or its training diverged");
  if (!at::isfinite(b).all().item<bool>())
    throw Error(ErrorKind::internal, "the logits of what was written are not finite, but the original's are");
  LogitDifference result{.positions = a.size(0)};
  int64_t same = 0;
  for (int64_t i = 0; i < a.size(0); ++i) {
    const at::Tensor x = a.select(0, i).to(at::kDouble), y = b.select(0, i).to(at::kDouble);
    result.largest = std::max(result.largest, (x - y).abs().max().item<double>());
    result.scale = std::max(result.scale, x.abs().max().item<double>());
    const at::Tensor log_p = at::log_softmax(x, 0), log_q = at::log_softmax(y, 0);
    result.divergence += (log_p.exp() * (log_p - log_q)).sum().item<double>();
    same += x.argmax().item<int64_t>() == y.argmax().item<int64_t>();
  }
  result.divergence /= static_cast<double>(result.positions);
  result.same_likeliest = static_cast<double>(same) / static_cast<double>(result.positions);
  return result;
}

}  // namespace forge
