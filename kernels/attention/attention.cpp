#include "kernels/attention/attention.h"

#include <ATen/ATen.h>

namespace forge {
namespace {

// [tokens, heads, head_dim] → [1, heads, tokens, head_dim], as LibTorch's attention wants it; no copy.
at::Tensor heads_first(const at::Tensor& x) { return x.transpose(0, 1).unsqueeze(0); }

at::Tensor repeat_heads(const at::Tensor& x, int64_t heads) {
  int64_t groups = heads / x.size(1);
  return groups == 1 ? x : x.repeat_interleave(groups, 1);
}

}  // namespace

at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::vector<int32_t>& cu_seqlens, double scale) {
  int64_t tokens = q.size(0), heads = q.size(1), width = heads * q.size(2);
  // LibTorch's CPU flash attention does not know grouped queries; expanding here costs less than its fallback.
  at::Tensor all_k = repeat_heads(k, heads), all_v = repeat_heads(v, heads);
  std::vector<at::Tensor> parts;
  parts.reserve(cu_seqlens.size());
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
    int64_t begin = cu_seqlens[s], length = cu_seqlens[s + 1] - begin;
    at::Tensor out = at::scaled_dot_product_attention(
        heads_first(q.narrow(0, begin, length)), heads_first(all_k.narrow(0, begin, length)),
        heads_first(all_v.narrow(0, begin, length)), /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true, scale);
    parts.push_back(out.squeeze(0).transpose(0, 1).reshape({length, width}));
  }
  return parts.size() == 1 ? parts[0] : parts.empty() ? q.reshape({tokens, width}) : at::cat(parts, 0);
}

at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale) {
  int64_t fresh = q.size(0), total = k.size(0), heads = q.size(1);
  at::Tensor mask;  // [fresh, total]; true where query i may look
  if (fresh > 1) mask = at::ones({fresh, total}, q.options().dtype(at::kBool)).tril(total - fresh);
  at::Tensor out = at::scaled_dot_product_attention(
      heads_first(q), heads_first(repeat_heads(k, heads)), heads_first(repeat_heads(v, heads)),
      mask.defined() ? std::optional<at::Tensor>(mask) : std::nullopt, 0.0, /*is_causal=*/false, scale);
  return out.squeeze(0).transpose(0, 1).reshape({fresh, heads * q.size(2)});
}

}  // namespace forge
