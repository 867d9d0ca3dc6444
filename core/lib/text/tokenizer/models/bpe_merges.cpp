#include "core/lib/text/tokenizer/models/bpe_merges.h"

#include <bit>
#include <queue>

namespace forge::text {
namespace {

constexpr size_t kShortWord = 48;  // symbols; measured: scanning is faster than the heap up to about this length
constexpr uint32_t kNone = ~0u;

// Keeps the rank of each adjacent pair and finds the smallest by scanning.
void merge_short(const MergeTable& table, std::vector<Symbol>& word) {
  uint32_t rank[kShortWord];
  int32_t merged[kShortWord];
  size_t count = word.size();
  const auto look = [&](size_t k) {
    const Merge* merge = table.find(word[k].id, word[k + 1].id);
    rank[k] = merge ? merge->rank : kNone;
    merged[k] = merge ? merge->id : 0;
  };
  for (size_t k = 0; k + 1 < count; ++k) look(k);
  while (count > 1) {
    size_t best = 0;
    for (size_t k = 1; k + 1 < count; ++k) {
      if (rank[k] < rank[best]) best = k;
    }
    if (rank[best] == kNone) break;
    word[best] = {merged[best], word[best].bytes + word[best + 1].bytes};
    for (size_t k = best + 1; k + 1 < count; ++k) {
      word[k] = word[k + 1];
      rank[k] = rank[k + 1];
      merged[k] = merged[k + 1];
    }
    --count;
    if (best > 0) look(best - 1);
    if (best + 1 < count) look(best);
  }
  word.resize(count);
}

struct Candidate {
  uint32_t rank;
  int32_t at;    // the left symbol
  int32_t left;  // the ids at the time the candidate was found
  int32_t right;
  int32_t id;
  bool operator>(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : at > other.at;
  }
};

// Uses a list linked by index. Candidates that a merge has made obsolete are recognised by their
// ids when they are taken.
void merge_long(const MergeTable& table, std::vector<Symbol>& word) {
  const auto count = static_cast<int32_t>(word.size());
  std::vector<int32_t> previous(word.size()), next(word.size());
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto look = [&](int32_t left, int32_t right) {
    if (const Merge* merge = table.find(word[left].id, word[right].id)) {
      queue.push({merge->rank, left, word[left].id, word[right].id, merge->id});
    }
  };
  for (int32_t k = 0; k < count; ++k) {
    previous[k] = k - 1;
    next[k] = k + 1;
    if (k + 1 < count) look(k, k + 1);
  }
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    const int32_t at = top.at, right = next[at];
    if (word[at].bytes < 0 || right >= count || word[at].id != top.left || word[right].id != top.right)
      continue;
    word[at] = {top.id, word[at].bytes + word[right].bytes};
    word[right].bytes = -1;  // gone
    next[at] = next[right];
    if (next[at] < count) previous[next[at]] = at;
    if (previous[at] >= 0) look(previous[at], at);
    if (next[at] < count) look(at, next[at]);
  }
  std::erase_if(word, [](const Symbol& symbol) { return symbol.bytes < 0; });
}

}  // namespace

MergeTable::MergeTable(size_t count) {
  const size_t size = std::bit_ceil(count * 2 + 2);
  slots_.assign(size, {kEmpty, {}});
  mask_ = size - 1;
  shift_ = 64 - std::countr_zero(size);
}

void MergeTable::set(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = key_of(left, right);
  size_t at = slot_of(key);
  while (slots_[at].key != kEmpty && slots_[at].key != key) at = (at + 1) & mask_;
  slots_[at] = {key, merge};
}

void apply_merges(const MergeTable& table, std::vector<Symbol>& word) {
  if (word.size() < 2) return;
  if (word.size() <= kShortWord) {
    merge_short(table, word);
  } else {
    merge_long(table, word);
  }
}

}  // namespace forge::text
