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
    for (size_t id = pieces.size(); id-- > 0;)
      if (!pieces[id].empty()) order_.emplace_back(pieces[id], static_cast<int32_t>(id));
    // Among pieces with the same text, the last id counts: it comes first and stays.
    std::ranges::stable_sort(order_, {}, &Piece::first);
    const auto twins = std::ranges::unique(order_, {}, &Piece::first);
    order_.erase(twins.begin(), twins.end());
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
    auto low = order_.begin() + first_[lead], high = order_.begin() + first_[lead + 1];
    for (size_t length = 1; low < high; ++length) {
      if (low->first.size() == length) {
        on_piece(length, low->second);
        ++low;
      }
      if (length >= text.size()) return;
      const auto byte = [length](const Piece& piece) {
        return static_cast<unsigned char>(piece.first[length]);
      };
      const auto next =
          std::ranges::equal_range(low, high, static_cast<unsigned char>(text[length]), {}, byte);
      low = next.begin();
      high = next.end();
    }
  }

 private:
  using Piece = std::pair<std::string_view, int32_t>;
  std::vector<Piece> order_;
  uint32_t first_[257];
};

}  // namespace forge::text
