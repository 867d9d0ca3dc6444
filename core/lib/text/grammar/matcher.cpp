#include "core/lib/text/grammar/matcher.h"

#include <algorithm>

namespace forge {
namespace {

constexpr int32_t kUnknown = -2, kNothing = -1;

}  // namespace

Matcher::Matcher(Grammar grammar, const std::array<bool, 256>& writable)
    : grammar_(std::move(grammar)),
      rule_shortest_(shortest_of_rules(grammar_, writable)),
      writable_(writable) {
  State state;
  const auto& alternatives = grammar_.rules[static_cast<size_t>(grammar_.root)];
  for (size_t i = 0; i < alternatives.size(); ++i)
    expand({grammar_.root, static_cast<int32_t>(i), 0}, kNothing, state);
  start_ = intern(std::move(state));
}

const Symbols& Matcher::symbols_at(const Place& place) const {
  return grammar_.rules[static_cast<size_t>(place.rule)][static_cast<size_t>(place.alternative)];
}

int32_t Matcher::node(const Place& place, int32_t below) {
  const auto [found, is_new] = node_numbers_.try_emplace({place, below}, static_cast<int32_t>(nodes_.size()));
  if (!is_new) return found->second;
  const auto rest = std::span(symbols_at(place)).subspan(static_cast<size_t>(place.symbol));
  const int64_t under = below == kNothing ? 0 : nodes_[static_cast<size_t>(below)].shortest;
  nodes_.push_back({place, below,
                    std::min(under + shortest_text(rest, rule_shortest_, writable_), kUnwritable)});
  return found->second;
}

// Adds the stacks whose top is at a byte, for `place` above `below`.
void Matcher::expand(const Place& place, int32_t below, State& state) {
  const Symbols& symbols = symbols_at(place);
  if (static_cast<size_t>(place.symbol) == symbols.size()) {
    if (below == kNothing) {
      state.may_end = true;
      return;
    }
    const Node under = nodes_[static_cast<size_t>(below)];
    return expand(under.place, under.below, state);
  }
  const Symbol& symbol = symbols[static_cast<size_t>(place.symbol)];
  if (!symbol.is_rule()) {
    state.stacks.push_back(node(place, below));
    return;
  }
  // If nothing of this alternative follows, the place below is next. This keeps the stacks of right
  // recursion flat.
  const Place behind{place.rule, place.alternative, place.symbol + 1};
  const int32_t rest = static_cast<size_t>(behind.symbol) == symbols.size() ? below : node(behind, below);
  const auto& alternatives = grammar_.rules[static_cast<size_t>(symbol.rule_index)];
  for (size_t i = 0; i < alternatives.size(); ++i)
    expand({symbol.rule_index, static_cast<int32_t>(i), 0}, rest, state);
}

int Matcher::intern(State state) {
  std::sort(state.stacks.begin(), state.stacks.end());
  state.stacks.erase(std::unique(state.stacks.begin(), state.stacks.end()), state.stacks.end());
  const auto [found, is_new] =
      state_numbers_.try_emplace({state.stacks, state.may_end}, static_cast<int>(states_.size()));
  if (!is_new) return found->second;
  if (state.may_end) state.shortest = 0;
  for (const int32_t top : state.stacks)
    state.shortest = std::min(state.shortest, nodes_[static_cast<size_t>(top)].shortest);
  state.next = std::make_unique<std::array<int32_t, 256>>();
  state.next->fill(kUnknown);
  states_.push_back(std::move(state));
  return found->second;
}

int Matcher::next(int state, uint8_t byte) {
  if (state == kDead) return kDead;
  if (const int32_t known = (*states_[static_cast<size_t>(state)].next)[byte]; known != kUnknown)
    return known;
  State after;
  for (const int32_t top : states_[static_cast<size_t>(state)].stacks) {
    const Node at = nodes_[static_cast<size_t>(top)];
    const Symbol& symbol = symbols_at(at.place)[static_cast<size_t>(at.place.symbol)];
    if (byte < symbol.low || byte > symbol.high) continue;
    expand({at.place.rule, at.place.alternative, at.place.symbol + 1}, at.below, after);
  }
  const int number = after.stacks.empty() && !after.may_end ? kDead : intern(std::move(after));
  (*states_[static_cast<size_t>(state)].next)[byte] = number;
  return number;
}

}  // namespace forge
