#include "core/lib/schema/json_grammar.h"

#include <algorithm>

#include "core/lib/base/error.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge {
namespace {

constexpr int64_t kLargest = 999'999'999'999'999;  // 15 digits: exact as a double

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

// Returns a rule for all characters of [low, high], which have equally many bytes in UTF-8.
Symbol JsonRules::utf8(uint32_t low, uint32_t high) {
  const std::string a = utf8_of(low), b = utf8_of(high);
  FORGE_CHECK(a.size() == b.size(), "characters of several lengths");
  // The range is split at the first byte that differs, like that of numbers: bytes between the two
  // borders are followed by any bytes, and each border by the bytes on its inner side.
  Alternatives alternatives;
  const auto byte = [](char c) { return static_cast<uint8_t>(c); };
  const auto free = [&](size_t count) { return Symbols(count, Symbol::bytes(0x80, 0xBF)); };
  size_t common = 0;
  while (common < a.size() && a[common] == b[common]) ++common;
  const Symbols prefix = symbols_of(a.substr(0, common));
  const auto add = [&](Symbols head, Symbols tail) {
    Symbols whole = prefix;
    whole.insert(whole.end(), head.begin(), head.end());
    whole.insert(whole.end(), tail.begin(), tail.end());
    alternatives.push_back(std::move(whole));
  };
  if (common == a.size()) return one_of({prefix});
  const size_t n = a.size();
  if (byte(a[common]) + 1 < byte(b[common]))
    add({Symbol::bytes(static_cast<uint8_t>(byte(a[common]) + 1), static_cast<uint8_t>(byte(b[common]) - 1))},
        free(n - common - 1));
  for (size_t i = common + 1; i < n; ++i) {  // above the lower border, below the upper one
    Symbols low_head = symbols_of(a.substr(common, i - common)),
            high_head = symbols_of(b.substr(common, i - common));
    if (byte(a[i]) < 0xBF) {
      low_head.push_back(Symbol::bytes(static_cast<uint8_t>(byte(a[i]) + 1), 0xBF));
      add(low_head, free(n - i - 1));
    }
    if (byte(b[i]) > 0x80) {
      high_head.push_back(Symbol::bytes(0x80, static_cast<uint8_t>(byte(b[i]) - 1)));
      add(high_head, free(n - i - 1));
    }
  }
  add(symbols_of(a.substr(common)), {});
  add(symbols_of(b.substr(common)), {});
  return one_of(std::move(alternatives));
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
        alternatives.push_back({utf8(low, high)});
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
    character_ = one_of({{character_of({{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, 0x10FFFF}})},
                         {Symbol::byte('\\'), one_of(std::move(escaped))}});
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

// Returns a rule for any `count` digits, with a point before the last `point` of them.
Symbol JsonRules::digits(size_t count, size_t point) {
  Symbols all;
  for (size_t left = count; left > 0; --left) {
    if (left == point && point > 0) all.push_back(Symbol::byte('.'));
    all.push_back(Symbol::bytes('0', '9'));
  }
  return one_of({std::move(all)});
}

// Returns a rule for digit strings of one length from `least` to `most`, with a point before the
// last `point` digits.
Symbol JsonRules::digits_between(const std::string& least, const std::string& most, size_t point) {
  const size_t count = least.size();
  if (count == 0) return one_of({{}});
  const bool dot = count == point && point > 0;
  Alternatives alternatives;
  const auto add = [&](char low, char high, Symbol rest) {
    Symbols all;
    if (dot) all.push_back(Symbol::byte('.'));
    all.push_back(Symbol::bytes(static_cast<uint8_t>(low), static_cast<uint8_t>(high)));
    all.push_back(rest);
    alternatives.push_back(std::move(all));
  };
  const std::string zeros(count - 1, '0'), nines(count - 1, '9'), a = least.substr(1), b = most.substr(1);
  const auto below = [&](const std::string& from, const std::string& to) {
    return from == zeros && to == nines ? digits(count - 1, point) : digits_between(from, to, point);
  };
  if (least[0] == most[0]) {
    add(least[0], least[0], below(a, b));
  } else {
    add(least[0], least[0], below(a, nines));
    if (least[0] + 1 < most[0])
      add(static_cast<char>(least[0] + 1), static_cast<char>(most[0] - 1), digits(count - 1, point));
    add(most[0], most[0], below(zeros, b));
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
    alternatives.push_back({digits_between(low, high, point)});
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

Symbol JsonRules::integer(std::optional<int64_t> least, std::optional<int64_t> most) {
  const std::optional<Symbol> whole = decimal(least, most, 0);
  FORGE_CHECK(whole, "no whole number lies between the bounds");
  return *whole;
}

Symbol JsonRules::number() {
  const Symbol fraction = repeat(Symbol::bytes('0', '9'), 1, 15);
  return one_of({{integer({}, {}), maybe(one_of({{Symbol::byte('.'), fraction}}))},
                 {Symbol::byte('-'), Symbol::byte('0'), Symbol::byte('.'), fraction}});
}

Symbol JsonRules::name_except(const std::vector<std::string>& taken) {
  // The rule is a tree of the taken names: after each prefix it allows every character but those
  // that continue a name, and the quote where no name ends.
  const Symbol plain = character_of({{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, 0x10FFFF}});
  const Symbol rest = one_of({{repeat(plain, 0, {}), Symbol::byte('"')}});
  const auto after = [&](const auto& self, const std::string& prefix) -> Symbol {
    CharacterSet others{{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, 0x10FFFF}};
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
      CharacterSet left;
      for (const auto& [low, high] : others) {
        if (code < low || code > high) {
          left.emplace_back(low, high);
          continue;
        }
        if (low < code) left.emplace_back(low, code - 1);
        if (code < high) left.emplace_back(code + 1, high);
      }
      others = std::move(left);
      alternatives.push_back({text(utf8_of(code)), self(self, longer)});
    }
    alternatives.push_back({character_of(others), rest});
    if (!ends) alternatives.push_back({Symbol::byte('"')});
    return one_of(std::move(alternatives));
  };
  return one_of({{Symbol::byte('"'), after(after, "")}});
}

}  // namespace forge
