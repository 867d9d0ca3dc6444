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

// One sequence. [length, heads, head_dim] each → [length, heads · head_dim]
at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale) {
  at::Tensor out = at::scaled_dot_product_attention(heads_first(q), heads_first(k), heads_first(v), /*attn_mask=*/{},
                                                    /*dropout_p=*/0.0, /*is_causal=*/true, scale);
  return out.squeeze(0).transpose(0, 1).reshape({q.size(0), q.size(1) * q.size(2)});
}

}  // namespace

at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::vector<int32_t>& cu_seqlens, double scale) {
  int64_t tokens = q.size(0), heads = q.size(1), width = heads * q.size(2);
  if (tokens == 0) return q.reshape({tokens, width});
  // LibTorch's CPU flash attention does not know grouped queries; expanding here costs less than its fallback.
  at::Tensor all_k = repeat_heads(k, heads), all_v = repeat_heads(v, heads);
  if (cu_seqlens.size() == 2) return causal_attention(q, all_k, all_v, scale);
  std::vector<int64_t> lengths;
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) lengths.push_back(cu_seqlens[s + 1] - cu_seqlens[s]);
  // Split, not narrow: the gradient of a narrow is a zeroed tensor of all tokens, once for every sequence.
  std::vector<at::Tensor> qs = at::split_with_sizes(q, lengths), ks = at::split_with_sizes(all_k, lengths),
                          vs = at::split_with_sizes(all_v, lengths), parts;
  for (size_t s = 0; s < lengths.size(); ++s) parts.push_back(causal_attention(qs[s], ks[s], vs[s], scale));
  return at::cat(parts, 0);
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
