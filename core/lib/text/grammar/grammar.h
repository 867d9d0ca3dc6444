#pragma once
// A context-free grammar over bytes: the texts that a model may write. core/lib/schema makes it,
// Matcher (matcher.h) follows it.
//
//   Grammar grammar;
//   const int digit = grammar.add_rule({{Symbol::bytes('0', '9')}});
//   grammar.root = grammar.add_rule({{Symbol::rule(digit)}, {Symbol::rule(digit), Symbol::rule(digit)}});
//
// Rules must not be left-recursive, nor repeat what may be empty: Matcher would not terminate.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/lib/io/json.h"

namespace forge {

struct Symbol {
  int32_t rule_index = -1;  // a rule, or with -1 one byte of [low, high]
  uint8_t low = 0, high = 0;

  static Symbol bytes(uint8_t low, uint8_t high) { return {-1, low, high}; }
  static Symbol byte(char c) { return bytes(static_cast<uint8_t>(c), static_cast<uint8_t>(c)); }
  static Symbol rule(int index) { return {index, 0, 0}; }
  bool is_rule() const { return rule_index >= 0; }
};

using Symbols = std::vector<Symbol>;  // in sequence; none: nothing is written
using Alternatives = std::vector<Symbols>;

struct Grammar {
  std::vector<Alternatives> rules;
  int root = 0;

  int add_rule(Alternatives alternatives) {
    rules.push_back(std::move(alternatives));
    return static_cast<int>(rules.size()) - 1;
  }
};

// Returns the bytes of a text, one symbol each.
Symbols symbols_of(std::string_view text);

Json to_json(const Grammar& grammar);
// Throws Error(internal) for a rule that does not exist.
Grammar grammar_from_json(const Json& json);

// Returns the fewest bytes that each rule writes if only `writable` bytes can be written;
// kUnwritable for a rule that cannot be written.
constexpr int64_t kUnwritable = int64_t{1} << 40;
std::vector<int64_t> shortest_of_rules(const Grammar& grammar, const std::array<bool, 256>& writable);
// Returns the fewest bytes of symbols in sequence, with those of every rule in `of_rules`.
int64_t shortest_text(std::span<const Symbol> symbols, const std::vector<int64_t>& of_rules,
                      const std::array<bool, 256>& writable);

}  // namespace forge
