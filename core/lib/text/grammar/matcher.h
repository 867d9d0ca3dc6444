#pragma once
// Follows a text through a grammar, byte by byte: a pushdown automaton whose sets of stacks become
// states when they are reached.
//
//   Matcher matcher(grammar, writable);
//   int state = matcher.start();
//   state = matcher.next(state, '{');        // Matcher::kDead when no text of the grammar goes on so
//   matcher.may_end(state), matcher.shortest(state)
//
// A stack holds what remains to be read in one way of reading the text so far. Stacks share their
// lower parts. States and the steps between them are kept, so that a second visit costs a look-up.
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/lib/text/grammar/grammar.h"

namespace forge {

class Matcher {
 public:
  static constexpr int kDead = -1;

  Matcher(Grammar grammar, const std::array<bool, 256>& writable);

  int start() const { return start_; }
  int next(int state, uint8_t byte);
  bool may_end(int state) const { return states_[static_cast<size_t>(state)].may_end; }
  // True if nothing can follow.
  bool must_end(int state) const { return states_[static_cast<size_t>(state)].stacks.empty(); }
  // Returns the fewest bytes, of those that can be written, that end the text.
  int64_t shortest(int state) const { return states_[static_cast<size_t>(state)].shortest; }

 private:
  struct Place {  // within an alternative
    int32_t rule, alternative, symbol;
    auto operator<=>(const Place&) const = default;
  };
  struct Node {
    Place place;
    int32_t below;  // another node, or -1
    int64_t shortest;
  };
  struct State {
    std::vector<int32_t> stacks;  // top nodes, each at a byte
    bool may_end = false;
    int64_t shortest = kUnwritable;
    std::unique_ptr<std::array<int32_t, 256>> next;  // kUnknown where not tried
  };

  const Symbols& symbols_at(const Place& place) const;
  int32_t node(const Place& place, int32_t below);
  void expand(const Place& place, int32_t below, State& state);
  int intern(State state);

  Grammar grammar_;
  std::vector<int64_t> rule_shortest_;
  std::array<bool, 256> writable_;
  std::vector<Node> nodes_;
  std::map<std::pair<Place, int32_t>, int32_t> node_numbers_;
  std::vector<State> states_;
  std::map<std::pair<std::vector<int32_t>, bool>, int> state_numbers_;
  int start_ = 0;
};

}  // namespace forge
