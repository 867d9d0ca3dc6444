#pragma once
// Packs examples into parts of at most a budget of tokens.
//
//   Parts parts = best_fit({4, 9, 7}, lengths, 4096);   // examples 4, 9 and 7 of the data
//   fill_of(parts, lengths, 4096).share()               // 0.98
//
// Best-fit decreasing (Johnson, "Near-optimal bin packing algorithms", 1973): the longest first,
// each into the fullest part that still has room. The number of parts is at most 11/9 of the
// optimum, and usually the optimum itself when examples are short against the budget. Everything
// here is a function of its arguments alone. O(n log n).
#include <cstdint>
#include <vector>

namespace forge {

using Parts = std::vector<std::vector<int64_t>>;

// Packs `items`, which index `lengths`. An example longer than the budget has a part of its own.
// The members of a part keep the order of `items`, and parts are in the order of their first
// member. Never makes more parts than fill_in_order.
Parts best_fit(const std::vector<int64_t>& items, const std::vector<int64_t>& lengths, int64_t token_budget);

// Cuts `items` in order: a part is closed when the next example would exceed `token_budget` or
// `most` examples. A part holds at least one.
Parts fill_in_order(const std::vector<int64_t>& items, const std::vector<int64_t>& lengths,
                    int64_t token_budget, int64_t most = INT64_MAX);

// The share of their budget that parts use. An example longer than the budget counts as a full
// part.
struct BatchFill {
  int64_t parts = 0, used_tokens = 0, budget_tokens = 0;  // of all parts together
  double share() const {
    return budget_tokens == 0 ? 0 : static_cast<double>(used_tokens) / static_cast<double>(budget_tokens);
  }
  void add(const Parts& more, const std::vector<int64_t>& lengths, int64_t token_budget);
};

}  // namespace forge
