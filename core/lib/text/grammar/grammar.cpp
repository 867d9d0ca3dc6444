#include "core/lib/text/grammar/grammar.h"

#include <algorithm>

namespace forge {

Symbols symbols_of(std::string_view text) {
  Symbols symbols;
  for (const char c : text) symbols.push_back(Symbol::byte(c));
  return symbols;
}

// The form is {"root", "rules": [[[symbol, …] of each alternative] of each rule]}; a symbol is a
// rule's number or [low, high].
void to_json(Json& json, const Symbol& symbol) {
  json = symbol.is_rule() ? Json(symbol.rule_index) : Json::array({symbol.low, symbol.high});
}

void from_json(const Json& json, Symbol& symbol) {
  symbol = json.is_array() ? Symbol::bytes(json.at(0).get<uint8_t>(), json.at(1).get<uint8_t>())
                           : Symbol::rule(json.get<int>());
}

Json to_json(const Grammar& grammar) { return {{"root", grammar.root}, {"rules", grammar.rules}}; }

Grammar grammar_from_json(const Json& json) {
  Grammar grammar{json.at("rules").get<std::vector<Alternatives>>(), json.at("root").get<int>()};
  const auto count = static_cast<int>(grammar.rules.size());
  const auto exists = [&](int rule) { return rule >= 0 && rule < count; };
  FORGE_CHECK(exists(grammar.root), "the grammar has " << count << " rules and begins with " << grammar.root);
  for (const Alternatives& alternatives : grammar.rules)
    for (const Symbols& symbols : alternatives)
      for (const Symbol& symbol : symbols)
        FORGE_CHECK(!symbol.is_rule() || exists(symbol.rule_index),
                    "the grammar has " << count << " rules, not " << symbol.rule_index);
  return grammar;
}

int64_t shortest_text(std::span<const Symbol> symbols, const std::vector<int64_t>& of_rules,
                      const std::array<bool, 256>& writable) {
  int64_t sum = 0;
  for (const Symbol& symbol : symbols) {
    const bool can = std::ranges::count(writable.begin() + symbol.low,
                                        writable.begin() + symbol.high + 1, true) > 0;
    sum += symbol.is_rule() ? of_rules[static_cast<size_t>(symbol.rule_index)]
           : can            ? 1
                            : kUnwritable;
    sum = std::min(sum, kUnwritable);
  }
  return sum;
}

std::vector<int64_t> shortest_of_rules(const Grammar& grammar, const std::array<bool, 256>& writable) {
  std::vector<int64_t> shortest(grammar.rules.size(), kUnwritable);
  // A rule mostly names rules made before it, so few rounds are needed.
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < grammar.rules.size(); ++i)
      for (const Symbols& symbols : grammar.rules[i]) {
        const int64_t sum = shortest_text(symbols, shortest, writable);
        if (sum < shortest[i]) shortest[i] = sum, changed = true;
      }
  }
  return shortest;
}

}  // namespace forge
