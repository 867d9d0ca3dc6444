#include "providers/fused/kv_cache.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "core/lib/base/error.h"
#include "core/model/dtype.h"

namespace forge {

KvCache::KvCache(const ModelSpec& spec, c10::ScalarType type, c10::Device device) : type_(element_of(type)), device_(device) {
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    if (spec.shares_kv(layer)) {
      layers_.push_back(layers_[static_cast<size_t>(spec.kv_layer(layer))]);
      layers_.back().shared = true;
      continue;
    }
    layers_.push_back({page_bytes_, spec.kv_heads(layer), spec.head_width(layer)});
    if (!spec.attends(layer)) continue;
    page_bytes_ += 2 * spec.key_width(layer) * kCachePage * bytes_of(type_);
  }
}

int64_t KvCache::length(int64_t sequence) const {
  return sequence < static_cast<int64_t>(sequences_.size()) ? sequences_[static_cast<size_t>(sequence)].length : 0;
}

KvCache::Sequence& KvCache::at(int64_t sequence) {
  if (sequence >= static_cast<int64_t>(sequences_.size())) sequences_.resize(static_cast<size_t>(sequence) + 1);
  return sequences_[static_cast<size_t>(sequence)];
}

void KvCache::extend(int64_t sequence, int64_t tokens) {
  Sequence& s = at(sequence);
  s.length += tokens;
  while (static_cast<int64_t>(s.pages.size()) * kCachePage < s.length) s.pages.push_back(take_page());
}

int32_t KvCache::take_page() {
  if (free_.empty()) grow();
  const int32_t page = free_.back();
  free_.pop_back();
  users_[static_cast<size_t>(page)] = 1;
  return page;
}

void KvCache::fork(int64_t from, int64_t to) {
  at(std::max(from, to));  // both are there before either is named
  const Sequence source = at(from);
  Sequence& copy = at(to);
  FORGE_CHECK(copy.length == 0, "sequence " << to << " has tokens of its own");
  copy.length = source.length;
  const auto full = static_cast<size_t>(source.length / kCachePage);
  for (size_t i = 0; i < source.pages.size(); ++i) {
    if (i < full) {
      ++users_[static_cast<size_t>(source.pages[i])];
      copy.pages.push_back(source.pages[i]);
      continue;
    }
    const int32_t page = take_page();
    memory_.narrow(0, page * page_bytes_, page_bytes_).copy_(memory_.narrow(0, source.pages[i] * page_bytes_, page_bytes_));
    copy.pages.push_back(page);
  }
}

void KvCache::give_page(int32_t page) {
  if (--users_[static_cast<size_t>(page)] == 0) free_.push_back(page);
}

void KvCache::shorten(int64_t sequence, int64_t tokens) {
  Sequence& s = at(sequence);
  FORGE_CHECK(tokens < s.length, "sequence " << sequence << " has " << s.length << " tokens and loses " << tokens);
  s.length -= tokens;
  for (; (static_cast<int64_t>(s.pages.size()) - 1) * kCachePage >= s.length; s.pages.pop_back()) give_page(s.pages.back());
}

void KvCache::release(int64_t sequence) {
  Sequence& s = at(sequence);
  for (auto page = s.pages.rbegin(); page != s.pages.rend(); ++page) give_page(*page);
  s = {};
}

void KvCache::grow() {
  constexpr int64_t kFirst = 8;  // pages
  const int64_t before = memory_.defined() ? memory_.numel() / page_bytes_ : 0, after = std::max(kFirst, 2 * before);
  at::Tensor larger = at::empty({after * page_bytes_}, at::TensorOptions(device_).dtype(at::kByte));
  if (before > 0) larger.narrow(0, 0, memory_.numel()).copy_(memory_);
  memory_ = larger;
  users_.resize(static_cast<size_t>(after));
  for (int64_t page = after; page-- > before;) free_.push_back(static_cast<int32_t>(page));
}

CacheShape KvCache::shape(const std::vector<int64_t>& sequences) {
  size_t columns = 0;
  for (int64_t sequence : sequences) columns = std::max(columns, at(sequence).pages.size());
  table_.assign(sequences.size() * columns, 0);
  for (size_t i = 0; i < sequences.size(); ++i) {
    const std::vector<int32_t>& pages = at(sequences[i]).pages;
    std::copy(pages.begin(), pages.end(), table_.begin() + static_cast<std::ptrdiff_t>(i * columns));
  }
  return {.type = type_,
          .page_stride = page_bytes_ / bytes_of(type_),
          .pages = table_.data(),
          .page_columns = static_cast<int64_t>(columns)};
}

}  // namespace forge
