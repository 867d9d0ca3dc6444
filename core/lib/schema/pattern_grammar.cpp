#include "core/lib/schema/pattern_grammar.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "core/lib/base/error.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge {
namespace {

constexpr int64_t kMostRepetitions = 1000;
constexpr int kDeepestGroup = 100;

// A part of the expression, and whether it may be empty.
struct Part {
  Symbol symbol;
  bool nullable = false;
};

class PatternReader {
 public:
  PatternReader(JsonRules& rules, std::string_view pattern) : rules_(rules), pattern_(pattern) {}

  Symbol read() {
    const bool from_start = take('^');
    // A `|` outside of groups is weaker than the anchors; only patterns without it may have them.
    Part body = alternatives(0);
    const bool to_end = ended_;
    if (at_ < pattern_.size()) refuse("\"" + std::string(pattern_.substr(at_)) + "\"");
    if ((from_start || to_end) && top_alternatives_ > 1) refuse("an anchor next to |, outside of a group");
    const Symbol any = rules_.repeat(rules_.any_character(), 0, {});
    Symbols all;
    if (!from_start) all.push_back(any);
    all.push_back(body.symbol);
    if (!to_end) all.push_back(any);
    return rules_.one_of({std::move(all)});
  }

 private:
  [[noreturn]] static void refuse(const std::string& what) {
    throw Error(ErrorKind::usage,
                "the pattern holds " + what + ", which is not supported where answers are constrained");
  }
  bool at_end() const { return at_ >= pattern_.size(); }
  bool take(char c) {
    if (at_end() || pattern_[at_] != c) return false;
    ++at_;
    return true;
  }

  Part alternatives(int depth) {
    if (depth > kDeepestGroup) refuse("too many groups inside each other");
    Alternatives all;
    bool nullable = false;
    do {
      const Part one = sequence(depth);
      all.push_back({one.symbol});
      nullable |= one.nullable;
    } while (take('|'));
    if (depth == 0) top_alternatives_ = all.size();
    return {rules_.one_of(std::move(all)), nullable};
  }

  Part sequence(int depth) {
    Symbols all;
    bool nullable = true;
    while (!at_end() && pattern_[at_] != '|' && pattern_[at_] != ')') {
      if (depth == 0 && pattern_[at_] == '$' && at_ + 1 == pattern_.size()) {
        ++at_;
        ended_ = true;
        break;
      }
      const Part one = repeated(atom(depth));
      all.push_back(one.symbol);
      nullable &= one.nullable;
    }
    return {rules_.one_of({std::move(all)}), nullable};
  }

  std::optional<int64_t> count() {
    const size_t begin = at_;
    int64_t value = 0;
    for (; !at_end() && pattern_[at_] >= '0' && pattern_[at_] <= '9'; ++at_)
      value = std::min(kMostRepetitions + 1, value * 10 + (pattern_[at_] - '0'));
    return begin == at_ ? std::nullopt : std::optional(value);
  }

  Part repeated(Part part) {
    int64_t least = 1;
    std::optional<int64_t> most = 1;
    if (take('*'))
      least = 0, most.reset();
    else if (take('+'))
      most.reset();
    else if (take('?'))
      least = 0;
    else if (take('{')) {
      const std::optional<int64_t> first = count();
      if (!first) refuse("{ without a count");
      least = *first, most = first;
      if (take(',')) most = count();
      if (!take('}')) refuse("{ without its end");
      if (most && *most < least) refuse("a count that ends below its beginning");
      if (std::max(least, most.value_or(0)) > kMostRepetitions) refuse("more than 1,000 repetitions");
    } else {
      return part;
    }
    take('?');
    if (!at_end() && (pattern_[at_] == '*' || pattern_[at_] == '+' || pattern_[at_] == '{'))
      refuse("a quantifier after a quantifier");
    if (part.nullable) refuse("a repetition of what may be empty");
    return {rules_.repeat(part.symbol, least, most), least == 0};
  }

  Part atom(int depth) {
    if (take('(')) {
      if (take('?') && !take(':')) refuse("a group of another kind than (…) and (?:…)");
      const Part inner = alternatives(depth + 1);
      if (!take(')')) refuse("a group without its end");
      return inner;
    }
    if (take('[')) return {rules_.character_of(character_class())};
    if (take('.')) return {rules_.character_of(all_but({}))};
    const char c = pattern_[at_];
    if (c == '*' || c == '+' || c == '?' || c == '{' || c == '^' || c == '$')
      refuse(std::string("\"") + c + "\" in this place");
    return {rules_.character_of(one_character())};
  }

  // Reads a character, or the class of an escape.
  CharacterSet one_character() {
    if (!take('\\')) {
      const uint32_t code = text::next_char(pattern_, at_);
      return {{code, code}};
    }
    if (at_end()) refuse("\\ at its end");
    const char c = pattern_[at_++];
    static const std::map<char, CharacterSet> kEscapes{
        {'d', {{'0', '9'}}},
        {'w', {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
        {'s', {{' ', ' '}}},
        {'D', {{' ', '/'}, {':', '~'}}},
        {'W', {{' ', '/'}, {':', '@'}, {'[', '^'}, {'`', '`'}, {'{', '~'}}},
        // \S writes characters that are not blanks in PCRE2's Unicode classes either.
        {'S', {{'!', '~'}}},
        {'n', {{'\n', '\n'}}},
        {'r', {{'\r', '\r'}}},
        {'t', {{'\t', '\t'}}},
    };
    if (const auto found = kEscapes.find(c); found != kEscapes.end()) return found->second;
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x80 || std::isalnum(code)) refuse(std::string("\\") + c);
    return {{code, code}};
  }

  CharacterSet character_class() {
    const bool negated = take('^');
    CharacterSet set;
    for (bool first = true; first || at_end() || pattern_[at_] != ']'; first = false) {
      if (at_end()) refuse("a class without its end");
      if (pattern_.substr(at_).starts_with("[:") || pattern_.substr(at_).starts_with("[.") ||
          pattern_.substr(at_).starts_with("[="))
        refuse("a class by name");
      const CharacterSet from = one_character();
      const bool is_range = at_ + 1 < pattern_.size() && pattern_[at_] == '-' && pattern_[at_ + 1] != ']';
      if (!is_range) {
        set.insert(set.end(), from.begin(), from.end());
        continue;
      }
      ++at_;
      const CharacterSet to = one_character();
      if (from.size() != 1 || to.size() != 1 || from[0].first != from[0].second ||
          to[0].first != to[0].second || to[0].first < from[0].first)
        refuse("an invalid range");
      set.emplace_back(from[0].first, to[0].first);
    }
    ++at_;
    set = sorted(std::move(set));
    return negated ? all_but(set) : set;
  }

  JsonRules& rules_;
  std::string_view pattern_;
  size_t at_ = 0;
  size_t top_alternatives_ = 0;
  bool ended_ = false;
};

}  // namespace

Symbol pattern_rule(JsonRules& rules, const std::string& pattern) {
  return PatternReader(rules, pattern).read();
}

}  // namespace forge
