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
Json to_json(const Grammar& grammar) {
  Json rules = Json::array();
  for (const Alternatives& alternatives : grammar.rules) {
    Json rule = Json::array();
    for (const Symbols& symbols : alternatives) {
      Json list = Json::array();
      for (const Symbol& symbol : symbols)
        list.push_back(symbol.is_rule() ? Json(symbol.rule_index) : Json::array({symbol.low, symbol.high}));
      rule.push_back(std::move(list));
    }
    rules.push_back(std::move(rule));
  }
  return {{"root", grammar.root}, {"rules", std::move(rules)}};
}

Grammar grammar_from_json(const Json& json) {
  Grammar grammar;
  grammar.root = json.at("root").get<int>();
  for (const Json& rule : json.at("rules")) {
    Alternatives alternatives;
    for (const Json& list : rule) {
      Symbols symbols;
      for (const Json& symbol : list)
        symbols.push_back(symbol.is_array()
                              ? Symbol::bytes(symbol.at(0).get<uint8_t>(), symbol.at(1).get<uint8_t>())
                              : Symbol::rule(symbol.get<int>()));
      alternatives.push_back(std::move(symbols));
    }
    grammar.add_rule(std::move(alternatives));
  }
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

std::vector<int64_t> shortest_of_rules(const Grammar& grammar, const std::array<bool, 256>& writable) {
  std::vector<int64_t> shortest(grammar.rules.size(), kUnwritable);
  const auto of_symbol = [&](const Symbol& symbol) {
    if (symbol.is_rule()) return shortest[static_cast<size_t>(symbol.rule_index)];
    return std::any_of(writable.begin() + symbol.low, writable.begin() + symbol.high + 1,
                       [](bool b) { return b; })
               ? 1
               : kUnwritable;
  };
  // A rule mostly names rules made before it, so few rounds are needed.
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < grammar.rules.size(); ++i)
      for (const Symbols& symbols : grammar.rules[i]) {
        int64_t sum = 0;
        for (const Symbol& symbol : symbols) sum = std::min(kUnwritable, sum + of_symbol(symbol));
        if (sum < shortest[i]) shortest[i] = sum, changed = true;
      }
  }
  return shortest;
}

}  // namespace forge
