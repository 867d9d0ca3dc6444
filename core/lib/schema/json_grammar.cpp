#include "core/lib/schema/json_grammar.h"

#include <algorithm>

#include "core/lib/base/error.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge {
namespace {

constexpr int64_t kLargest = 999'999'999'999'999;  // 15 digits: exact as a double

const CharacterSet kEscaped{{'"', '"'}, {'\\', '\\'}};  // beside control characters

bool needs_escape(uint32_t code) { return code < 0x20 || code == '"' || code == '\\'; }

std::string escape_of(uint32_t code) {
  constexpr std::pair<uint32_t, const char*> kShort[] = {{'"', "\\\""}, {'\\', "\\\\"}, {'\b', "\\b"},
                                                         {'\f', "\\f"}, {'\n', "\\n"},  {'\r', "\\r"},
                                                         {'\t', "\\t"}};
  for (const auto& [known, text] : kShort)
    if (code == known) return text;
  constexpr const char* kHex = "0123456789abcdef";
  return std::string("\\u00") + kHex[code >> 4 & 15] + kHex[code & 15];
}

std::string utf8_of(uint32_t code) {
  std::string bytes;
  text::append_utf8(bytes, code);
  return bytes;
}

std::string padded(int64_t value, size_t width) {
  std::string digits = std::to_string(value);
  return std::string(width - std::min(width, digits.size()), '0') + digits;
}

}  // namespace

CharacterSet sorted(CharacterSet set) {
  std::sort(set.begin(), set.end());
  CharacterSet merged;
  for (const auto& [low, high] : set)
    if (!merged.empty() && low <= merged.back().second + 1)
      merged.back().second = std::max(merged.back().second, high);
    else
      merged.emplace_back(low, high);
  return merged;
}

CharacterSet all_but(const CharacterSet& set) {
  constexpr uint32_t kLastCharacter = 0x10FFFF;
  CharacterSet rest;
  uint32_t next = 0x20;
  for (const auto& [low, high] : sorted(set)) {
    if (low > next) rest.emplace_back(next, low - 1);
    next = std::max(next, high + 1);
  }
  if (next <= kLastCharacter) rest.emplace_back(next, kLastCharacter);
  return rest;
}

Symbol JsonRules::character_of(const CharacterSet& set) {
  constexpr std::pair<uint32_t, uint32_t> kLengths[] = {
      {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}};
  Alternatives alternatives;
  for (const auto& [first, last] : set)
    for (const auto& [shortest, longest] : kLengths) {
      const uint32_t low = std::max(first, shortest), high = std::min(last, longest);
      if (low > high) continue;
      if (shortest > 0) {
        alternatives.push_back({run_between(utf8_of(low), utf8_of(high), {0x80, 0xBF})});
        continue;
      }
      for (uint32_t code = low; code <= high;) {
        if (needs_escape(code)) {
          alternatives.push_back(symbols_of(escape_of(code++)));
          continue;
        }
        uint32_t end = code;
        while (end < high && !needs_escape(end + 1)) ++end;
        alternatives.push_back({Symbol::bytes(static_cast<uint8_t>(code), static_cast<uint8_t>(end))});
        code = end + 1;
      }
    }
  return one_of(std::move(alternatives));
}

Symbol JsonRules::any_character() {
  if (!character_) {
    const Symbol hex =
        one_of({{Symbol::bytes('0', '9')}, {Symbol::bytes('a', 'f')}, {Symbol::bytes('A', 'F')}});
    const Symbol no_surrogate = one_of({{Symbol::bytes('0', '9'), hex},
                                        {Symbol::bytes('a', 'c'), hex},
                                        {Symbol::bytes('A', 'C'), hex},
                                        {Symbol::bytes('e', 'f'), hex},
                                        {Symbol::bytes('E', 'F'), hex},
                                        {Symbol::byte('d'), Symbol::bytes('0', '7')},
                                        {Symbol::byte('D'), Symbol::bytes('0', '7')}});
    Alternatives escaped{{Symbol::byte('u'), no_surrogate, hex, hex}};
    for (const char c : {'"', '\\', '/', 'b', 'f', 'n', 'r', 't'}) escaped.push_back({Symbol::byte(c)});
    character_ = one_of({{character_of(all_but(kEscaped))}, {Symbol::byte('\\'), one_of(std::move(escaped))}});
  }
  return *character_;
}

Symbol JsonRules::repeat(Symbol symbol, int64_t least, std::optional<int64_t> most) {
  Symbol tail;
  if (!most) {
    const int rule = grammar_.add_rule({});
    grammar_.rules[static_cast<size_t>(rule)] = {{symbol, Symbol::rule(rule)}, {}};
    tail = Symbol::rule(rule);
  } else {
    const Symbol whole = symbol.is_rule() ? symbol : one_of({{symbol}});
    tail = one_of({{}});
    for (int64_t n = 1; n <= *most - least; ++n) {
      const auto [found, is_new] = at_most_.try_emplace({whole.rule_index, n}, Symbol());
      if (is_new) found->second = one_of({{whole, tail}, {}});
      tail = found->second;
    }
  }
  Symbols all(static_cast<size_t>(least), symbol);
  all.push_back(tail);
  return one_of({std::move(all)});
}

Symbol JsonRules::any_run(size_t count, const ByteRun& run) {
  Symbols all;
  for (size_t left = count; left > 0; --left) {
    if (left == run.point) all.push_back(Symbol::byte('.'));
    all.push_back(Symbol::bytes(run.low, run.high));
  }
  return one_of({std::move(all)});
}

// The range is split at its first byte: bytes between the two borders are followed by any bytes,
// and each border by the bytes on its inner side.
Symbol JsonRules::run_between(const std::string& least, const std::string& most, const ByteRun& run) {
  const size_t count = least.size();
  FORGE_CHECK(most.size() == count, "borders of several lengths");
  if (count == 0) return one_of({{}});
  Alternatives alternatives;
  const auto add = [&](int low, int high, Symbol rest) {
    Symbols all;
    if (count == run.point) all.push_back(Symbol::byte('.'));
    all.push_back(Symbol::bytes(static_cast<uint8_t>(low), static_cast<uint8_t>(high)));
    all.push_back(rest);
    alternatives.push_back(std::move(all));
  };
  const std::string lowest(count - 1, static_cast<char>(run.low)), highest(count - 1, static_cast<char>(run.high));
  const auto after = [&](const std::string& from, const std::string& to) {
    return from == lowest && to == highest ? any_run(count - 1, run) : run_between(from, to, run);
  };
  const auto first = static_cast<uint8_t>(least[0]), last = static_cast<uint8_t>(most[0]);
  const std::string a = least.substr(1), b = most.substr(1);
  if (first == last) {
    add(first, first, after(a, b));
  } else {
    add(first, first, after(a, highest));
    if (first + 1 < last) add(first + 1, last - 1, any_run(count - 1, run));
    add(last, last, after(lowest, b));
  }
  return one_of(std::move(alternatives));
}

// Returns a rule for numbers of [least, most], 0 ≤ least ≤ most, both scaled by 10^decimals.
Symbol JsonRules::magnitude(int64_t least, int64_t most, int decimals) {
  const auto point = static_cast<size_t>(decimals);
  const std::string last = padded(most, point + 1);
  Alternatives alternatives;
  for (size_t width = padded(least, point + 1).size(); width <= last.size(); ++width) {
    const std::string first = padded(least, point + 1), ones = "1" + std::string(width - 1, '0');
    const std::string low = width == first.size() ? first : ones,
                      high = width == last.size() ? last : std::string(width, '9');
    alternatives.push_back({run_between(low, high, {'0', '9', point})});
  }
  return one_of(std::move(alternatives));
}

std::optional<Symbol> JsonRules::decimal(std::optional<int64_t> least, std::optional<int64_t> most,
                                         int decimals) {
  const int64_t low = std::max(least.value_or(-kLargest), -kLargest),
                high = std::min(most.value_or(kLargest), kLargest);
  if (low > high) return std::nullopt;
  Alternatives alternatives;
  if (high >= 0) alternatives.push_back({magnitude(std::max<int64_t>(low, 0), high, decimals)});
  if (low < 0)
    alternatives.push_back({Symbol::byte('-'), magnitude(std::max<int64_t>(-high, 1), -low, decimals)});
  return one_of(std::move(alternatives));
}

Symbol JsonRules::number() {
  const Symbol fraction = repeat(Symbol::bytes('0', '9'), 1, 15);
  return one_of({{*decimal({}, {}, 0), maybe(one_of({{Symbol::byte('.'), fraction}}))},
                 {Symbol::byte('-'), Symbol::byte('0'), Symbol::byte('.'), fraction}});
}

Symbol JsonRules::name_except(const std::vector<std::string>& taken) {
  // The rule is a tree of the taken names: after each prefix it allows every character but those
  // that continue a name, and the quote where no name ends.
  const Symbol plain = character_of(all_but(kEscaped));
  const Symbol rest = one_of({{repeat(plain, 0, {}), Symbol::byte('"')}});
  const auto after = [&](const auto& self, const std::string& prefix) -> Symbol {
    CharacterSet not_others = kEscaped;
    Alternatives alternatives;
    std::map<uint32_t, std::string> going;
    bool ends = false;
    for (const std::string& name : taken) {
      if (!name.starts_with(prefix)) continue;
      if (name == prefix) {
        ends = true;
        continue;
      }
      size_t at = prefix.size();
      const uint32_t code = text::next_char(name, at);
      going[code] = name.substr(0, at);
    }
    for (const auto& [code, longer] : going) {
      if (needs_escape(code)) continue;  // names without escapes never reach it
      not_others.emplace_back(code, code);
      alternatives.push_back({text(utf8_of(code)), self(self, longer)});
    }
    alternatives.push_back({character_of(all_but(not_others)), rest});
    if (!ends) alternatives.push_back({Symbol::byte('"')});
    return one_of(std::move(alternatives));
  };
  return one_of({{Symbol::byte('"'), after(after, "")}});
}

}  // namespace forge
