#include "providers/aten/cached_rows.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "core/model/forward.h"
#include "kernels/attention/attention.h"
#include "providers/aten/aten_ops.h"

namespace forge {

void CachedRows::begin(const std::vector<NewTokens>& tokens, const Batch& batch, const std::vector<int64_t>& before) {
  // Indices of all sequences go to the device in one copy.
  std::vector<int64_t> indices;
  sequences_.clear();
  const int64_t count = batch.tokens();
  indices.resize(static_cast<size_t>(2 * count));
  for (size_t i = 0; i < tokens.size(); ++i) {
    Sequence s{.first = batch.cu_seqlens[i], .count = batch.cu_seqlens[i + 1] - batch.cu_seqlens[i]};
    s.length = before[i] + s.count;
    const std::vector<int32_t>& pages = cache_.pages_of(tokens[i].sequence);
    for (int64_t t = 0; t < s.count; ++t) {
      const int64_t position = before[i] + t;
      indices[static_cast<size_t>(s.first + t)] = pages[static_cast<size_t>(position / kCachePage)];
      indices[static_cast<size_t>(count + s.first + t)] = position % kCachePage;
    }
    indices.insert(indices.end(), pages.begin(), pages.end());
    sequences_.push_back(s);
  }
  const at::Tensor all = at::tensor(indices, at::kLong).to(model_.device);
  page_ = all.narrow(0, 0, count), slot_ = all.narrow(0, count, count);
  int64_t next = 2 * count;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto pages = static_cast<int64_t>(cache_.pages_of(tokens[i].sequence).size());
    sequences_[i].pages = all.narrow(0, next, pages);
    next += pages;
  }
}

const CacheLayer& CachedRows::layer_of(const Op& op) const {
  return cache_.layers()[static_cast<size_t>(op.layer - model_.spec.encoder_layers)];
}

// Returns keys (part 0) or values (1) of the op's layer: [pages, kCachePage, kv_heads, head_dim].
at::Tensor CachedRows::rows_of(const Op& op, int64_t part) const {
  const CacheLayer& layer = layer_of(op);
  const int64_t bytes = static_cast<int64_t>(c10::elementSize(model_.type)), count = kCachePage * layer.kv_heads * layer.head_dim;
  return cache_.memory()
      .view(model_.type)
      .view({-1, cache_.page_bytes() / bytes})
      .narrow(1, layer.begin / bytes + part * count, count)
      .unflatten(1, {kCachePage, layer.kv_heads, layer.head_dim});
}

// Returns a value of the op by heads: [tokens, heads, head_dim].
at::Tensor CachedRows::value(const StepMemory& m, const Op& op, ValueId id, bool writes) const {
  m.touch(device_, id, writes);
  return tensor_of(m, id, model_.device).unflatten(1, {-1, op.attributes.head_dim});
}

void CachedRows::store(const StepMemory& m, const Op& op) const {
  if (layer_of(op).shared) return;
  for (int64_t part = 0; part < 2; ++part) rows_of(op, part).index_put_({page_, slot_}, value(m, op, op.in[static_cast<size_t>(1 + part)], false));
}

void CachedRows::attend(const StepMemory& m, const Op& op, const BatchTensors& batch) const {
  store(m, op);
  static const Attend kNone;
  const AttentionRule rule = rule_of_attention({m.graph, op, modules_, batch, kNone, false, model_.type});
  const at::Tensor keys = rows_of(op, 0), values = rows_of(op, 1), q = value(m, op, op.in[0], false), out = value(m, op, op.out[0], true);
  for (const Sequence& s : sequences_) {
    const auto read = [&](const at::Tensor& pages) { return pages.index_select(0, s.pages).flatten(0, 1).narrow(0, 0, s.length); };
    const at::Tensor all_keys = read(keys), all_values = read(values);
    const int64_t before = s.length - s.count, chunk = op.attributes.chunk > 0 ? op.attributes.chunk : s.length;
    for (int64_t begin = before; begin < s.length;) {  // the new tokens of one chunk after the other
      const int64_t first = begin / chunk * chunk, end = std::min(s.length, first + chunk), count = end - begin;
      const at::Tensor mixed = cached_attention(q.narrow(0, s.first + begin - before, count), all_keys.narrow(0, first, end - first),
                                                all_values.narrow(0, first, end - first), rule);
      out.narrow(0, s.first + begin - before, count).copy_(mixed.view({count, q.size(1), q.size(2)}));
      begin = end;
    }
  }
}

}  // namespace forge
