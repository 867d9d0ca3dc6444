#pragma once
// Finds the pieces of a unigram vocabulary that are prefixes of a text.
//
//   index.prefixes("lo", [](size_t bytes, int32_t id) { … });    // "l", "lo"
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace forge::text {

// All pieces as one sorted list of byte strings, searched by bisection: a trie without nodes. The
// range [low, high) holds the pieces that begin with the bytes read so far.
class PieceIndex {
 public:
  // `pieces` are by id; empty ones are left out. The viewed texts must outlive this.
  explicit PieceIndex(const std::vector<std::string_view>& pieces) {
    order_.reserve(pieces.size());
    for (size_t id = 0; id < pieces.size(); ++id) {
      if (!pieces[id].empty()) order_.emplace_back(pieces[id], static_cast<int32_t>(id));
    }
    // Among pieces with the same text, the last id counts.
    std::stable_sort(order_.begin(), order_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    size_t kept = 0;
    for (size_t k = 0; k < order_.size(); ++k) {
      if (kept > 0 && order_[kept - 1].first == order_[k].first) --kept;
      order_[kept++] = order_[k];
    }
    order_.resize(kept);
    size_t at = 0;
    for (int byte = 0; byte < 256; ++byte) {
      first_[byte] = static_cast<uint32_t>(at);
      while (at < order_.size() && static_cast<unsigned char>(order_[at].first[0]) == byte) ++at;
    }
    first_[256] = static_cast<uint32_t>(at);
  }

  // Calls on_piece(length, id) for every piece that is a prefix of `text`, shortest first.
  template <class OnPiece>
  void prefixes(std::string_view text, OnPiece on_piece) const {
    const auto lead = static_cast<unsigned char>(text[0]);
    size_t low = first_[lead], high = first_[lead + 1];
    for (size_t length = 1; low < high; ++length) {
      if (order_[low].first.size() == length) {
        on_piece(length, order_[low].second);
        ++low;
      }
      if (length >= text.size()) return;
      const auto next = static_cast<unsigned char>(text[length]);
      const auto byte = [&](size_t k) { return static_cast<unsigned char>(order_[k].first[length]); };
      size_t a = low, b = high;
      while (a < b) {
        const size_t middle = (a + b) / 2;
        byte(middle) < next ? a = middle + 1 : b = middle;
      }
      low = a;
      b = high;
      while (a < b) {
        const size_t middle = (a + b) / 2;
        byte(middle) <= next ? a = middle + 1 : b = middle;
      }
      high = a;
    }
  }

 private:
  std::vector<std::pair<std::string_view, int32_t>> order_;
  uint32_t first_[257];
};

}  // namespace forge::text
