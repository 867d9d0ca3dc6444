#pragma once
// The merge table and the two ways to apply it.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace forge::text {

// Rank of a symbol pair (smaller is earlier) and the id that it becomes.
struct Merge {
  uint32_t rank;
  int32_t id;
};

// Hash table from pair to Merge with open addressing. Nearly every look-up touches one cache line;
// look-ups are most of the work of BPE.
class MergeTable {
 public:
  explicit MergeTable(size_t count = 0);
  // A later merge of the same pair replaces the earlier.
  void set(int32_t left, int32_t right, Merge merge);
  const Merge* find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t at = slot_of(key);; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return &slots_[at].merge;
      if (slots_[at].key == kEmpty) return nullptr;
    }
  }

 private:
  struct Slot {
    uint64_t key;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = ~0ull;
  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const { return static_cast<size_t>((key * 0x9E3779B97F4A7C15ull) >> shift_); }
  std::vector<Slot> slots_;
  size_t mask_ = 0;
  int shift_ = 63;
};

struct Symbol {
  int32_t id;
  int32_t bytes;  // bytes of the word's text
};

// Merges in place: quadratic for short words, where it is fastest; with a heap, O(n log n), for
// long ones.
void apply_merges(const MergeTable& table, std::vector<Symbol>& word);

}  // namespace forge::text
