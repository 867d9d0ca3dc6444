#pragma once
// Grammar rules for the parts of JSON: characters of strings, numbers in ranges, repetition.
// schema_grammar and pattern_grammar use them.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/lib/text/grammar/grammar.h"

namespace forge {

// A set of characters as sorted ranges of code points.
using CharacterSet = std::vector<std::pair<uint32_t, uint32_t>>;

// Returns the same characters in ranges that are sorted and apart.
CharacterSet sorted(CharacterSet set);
// Returns all characters but those of a set. Control characters are left out too.
CharacterSet all_but(const CharacterSet& set);

class JsonRules {
 public:
  explicit JsonRules(Grammar& grammar) : grammar_(grammar) {}

  // Returns a rule for one character of a string, written as itself or by an escape.
  Symbol any_character();
  // Returns a rule for one character of the set, written as itself where JSON allows it and by its
  // shortest escape elsewhere. Surrogates are left out.
  Symbol character_of(const CharacterSet& set);
  // Returns a rule for `least` to `most` repetitions of a symbol (no `most`: any number). The
  // symbol writes at least one byte.
  Symbol repeat(Symbol symbol, int64_t least, std::optional<int64_t> most);
  Symbol one_of(Alternatives alternatives) {
    return Symbol::rule(grammar_.add_rule(std::move(alternatives)));
  }
  Symbol text(std::string_view bytes) { return one_of({symbols_of(bytes)}); }
  Symbol maybe(Symbol symbol) { return one_of({{symbol}, {}}); }

  // Returns a rule for numbers without bounds.
  Symbol number();
  // Returns a rule for numbers of [least, most] × 10^-decimals, where these are given, with exactly
  // so many digits after the point and at most 15 in all; nothing when there is no such number.
  std::optional<Symbol> decimal(std::optional<int64_t> least, std::optional<int64_t> most, int decimals);

  // Returns a rule for a member's name other than `taken`, in quotes and without escapes.
  Symbol name_except(const std::vector<std::string>& taken);

 private:
  // Bytes in sequence: digits, or those of a character after its first.
  struct ByteRun {
    uint8_t low, high;
    size_t point = 0;  // the bytes that follow a point; 0: there is none
  };
  // Returns a rule for any `count` bytes of a run.
  Symbol any_run(size_t count, const ByteRun& run);
  // Returns a rule for the texts from `least` to `most`, which are equally long and whose bytes,
  // but for the first of each, are of a run.
  Symbol run_between(const std::string& least, const std::string& most, const ByteRun& run);
  Symbol magnitude(int64_t least, int64_t most, int decimals);

  Grammar& grammar_;
  std::optional<Symbol> character_;
  std::map<std::pair<int32_t, int64_t>, Symbol> at_most_;  // shared tails of repetitions
};

}  // namespace forge
