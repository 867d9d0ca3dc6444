// Recursive descent over plain_math's text:
//
//   answer   = relation {"," relation}
//   relation = union {("=" | "<" | …) union}        the last of a chain a = b = c
//   union    = sum {"\cup" sum}
//   sum      = product {("+" | "-" | "\pm") product}
//   product  = factor {["*"] factor | "/" factor}    nothing between factors multiplies
//   factor   = "-" factor | atom ["^" factor] {"!"}
#include <algorithm>
#include <type_traits>

#include "core/learn/reward/math_node.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

using Kind = MathNode::Kind;

struct NoMath {};  // thrown and caught in this file

// Makes a node from parsed items. They are parsed first because GCC 12 destroys the members of a
// braced list twice when one of its items throws.
template <class... Items>
MathNode node(Kind kind, std::string name, Items... items) {
  MathNode result;
  result.kind = kind;
  result.name = std::move(name);
  if constexpr (sizeof...(Items) == 1 && (std::is_same_v<Items, std::vector<MathNode>> && ...))
    result.items = (std::move(items), ...);
  else
    (result.items.push_back(std::move(items)), ...);
  return result;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

constexpr const char* kFunctions[] = {"arcsin", "arccos", "arctan", "sinh", "cosh", "tanh",
                                      "sin",    "cos",    "tan",    "cot",  "sec",  "csc",
                                      "ln",     "exp",    "sqrt",   "log",  "abs"};

class Parser {
 public:
  Parser(const std::string& text, bool minus) : text_(text), minus_(minus) {}

  MathNode answer() {
    std::vector<MathNode> items{relation()};
    while (take(",")) items.push_back(relation());
    blanks();
    if (at_ < text_.size()) throw NoMath();
    if (items.size() == 1) return std::move(items[0]);
    return node(Kind::list, "{}", std::move(items));
  }
  bool saw_plus_minus() const { return plus_minus_; }

 private:
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool next_is(std::string_view word) {
    blanks();
    if (text_.compare(at_, word.size(), word) != 0) return false;
    // \in is not the beginning of \infty.
    const size_t end = at_ + word.size();
    return word[0] != '\\' || !is_letter(word.back()) || end == text_.size() || !is_letter(text_[end]);
  }
  bool take(std::string_view word) {
    if (!next_is(word)) return false;
    at_ += word.size();
    return true;
  }
  void need(std::string_view word) {
    if (!take(word)) throw NoMath();
  }
  char peek() {
    blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  MathNode relation() {
    MathNode left = unite();
    for (;;) {
      const auto* found = std::find_if(std::begin(kRelations), std::end(kRelations),
                                       [&](const Relation& it) { return take(it.spelling); });
      if (found == std::end(kRelations)) return left;
      MathNode right = unite();
      // The last part of a chain of equations is the result.
      if (left.kind == Kind::relation && left.name == "=") {
        left.items[1] = std::move(right);
        continue;
      }
      left = node(Kind::relation, found->name, std::move(left), std::move(right));
    }
  }

  MathNode unite() {
    MathNode first = sum();
    if (!next_is("\\cup")) return first;
    MathNode all = node(Kind::unite, "", std::move(first));
    while (take("\\cup")) all.items.push_back(sum());
    return all;
  }

  MathNode sum() {
    MathNode total = product();
    for (;;) {
      bool negative = false;
      if (take("\\pm") || take("±")) {
        plus_minus_ = true;
        negative = minus_;
      } else if (take("-")) {
        negative = true;
      } else if (!take("+")) {
        return total;
      }
      MathNode next = product();
      if (negative) next = node(Kind::negate, "", std::move(next));
      if (total.kind != Kind::add) total = node(Kind::add, "", std::move(total));
      total.items.push_back(std::move(next));
    }
  }

  bool begins_factor() {
    const char c = peek();
    if (is_digit(c) || is_letter(c) || c == '(' || c == '{' || c == '.') return true;
    if (c == '|') return bars_ == 0;  // inside |…| the next bar closes
    if (c != '\\') return false;
    for (const char* other : {"\\cup", "\\le", "\\ge", "\\ne", "\\lt", "\\gt", "\\in", "\\pm", "\\}",
                              "\\rfloor", "\\rceil", "\\end", "\\approx", "\\to"})
      if (next_is(other)) return false;
    return true;
  }

  MathNode product() {
    MathNode total = factor();
    for (;;) {
      if (take("*")) {
        total = node(Kind::multiply, "", std::move(total), factor());
      } else if (take("/")) {
        total = node(Kind::divide, "", std::move(total), factor());
      } else if (begins_factor()) {
        const bool mixed = total.kind == Kind::number && next_is("\\frac");
        MathNode next = factor();
        // 3\frac{1}{2} is three and a half.
        const bool fraction = mixed && next.kind == Kind::divide && next.items[0].kind == Kind::number &&
                              next.items[1].kind == Kind::number;
        total = node(fraction ? Kind::add : Kind::multiply, "", std::move(total), std::move(next));
      } else {
        return total;
      }
    }
  }

  MathNode factor() {
    const Depth depth(*this);
    if (take("\\pm") || take("±")) {
      plus_minus_ = true;
      MathNode inner = factor();
      if (!minus_) return inner;
      return node(Kind::negate, "", std::move(inner));
    }
    if (take("-")) return node(Kind::negate, "", factor());
    if (take("+")) return factor();
    MathNode base = atom();
    for (;;) {
      if (take("^")) {
        // All digits are the exponent: LaTeX takes only one, but people write 2^10.
        MathNode exponent = is_digit(peek()) ? number_here() : argument();
        base = node(Kind::power, "", std::move(base), std::move(exponent));
      } else if (take("!")) {
        base = node(Kind::call, "factorial", std::move(base));
      } else {
        return base;
      }
    }
  }

  // Reads the argument of ^, \frac, \sqrt: a group, or one character or command.
  MathNode argument() {
    const Depth depth(*this);
    if (peek() == '{') return atom();
    if (take("-")) return node(Kind::negate, "", argument());
    if (is_digit(peek())) {
      const char digit = text_[at_++];
      return number(std::string(1, digit));
    }
    return atom();
  }

  MathNode number(const std::string& digits) {
    std::optional<Fraction> value = parse_decimal(digits);
    if (!value) throw NoMath();
    return {Kind::number, "", std::move(*value), digits.find('.') != digits.npos, {}};
  }

  MathNode number_here() {
    std::string digits;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const auto digit_at = [&](size_t i) { return i < text_.size() && is_digit(text_[i]); };
      const bool thousands = c == ',' && brackets_ == 0 && !digits.empty() &&
                             digits.size() <= 3 + 4 * commas_ && digit_at(at_ + 1) && digit_at(at_ + 2) &&
                             digit_at(at_ + 3) && !digit_at(at_ + 4) && digits.find('.') == digits.npos;
      if (thousands)
        ++commas_;
      else if (is_digit(c) || (c == '.' && digit_at(at_ + 1) && digits.find('.') == digits.npos) ||
               (c == '.' && !digits.empty() && digits.find('.') == digits.npos && !digit_at(at_ + 1)))
        digits += c;
      else
        break;
      ++at_;
    }
    commas_ = 0;
    return number(digits);
  }

  MathNode group(std::string_view close) {
    MathNode inner = relation();
    need(close);
    return inner;
  }

  MathNode brackets(char open) {
    ++brackets_;
    std::vector<MathNode> items;
    const bool set = open == '{';
    if (!(set ? next_is("\\}") : peek() == ')' || peek() == ']')) {
      items.push_back(relation());
      while (take(",") || take(";")) items.push_back(relation());
    }
    --brackets_;
    std::string name(1, open);
    if (set) {
      need("\\}");
      name += '}';
    } else {
      const char close = peek();
      if (close != ')' && close != ']') throw NoMath();
      ++at_;
      name += close;
    }
    if (items.size() == 1 && !set) return std::move(items[0]);
    return node(Kind::list, std::move(name), std::move(items));
  }

  MathNode call(std::string name) {
    const Depth depth(*this);
    if (name == "sqrt") {
      if (take("[")) {
        MathNode degree = group("]");
        MathNode radicand = argument_of_call();
        return node(Kind::call, name, std::move(radicand), std::move(degree));
      }
      return node(Kind::call, name, argument_of_call());
    }
    std::optional<MathNode> base, power;
    if (name == "log" && take("_")) base = argument();
    if (take("^")) power = argument();
    std::vector<MathNode> arguments{argument_of_call()};
    if (base) arguments.push_back(std::move(*base));
    MathNode result = node(Kind::call, std::move(name), std::move(arguments));
    if (power) return node(Kind::power, "", std::move(result), std::move(*power));
    return result;
  }
  // Reads the argument of a call: \sin x, \sin(x), \sin 2x, \sqrt2.
  MathNode argument_of_call() {
    if (peek() == '{' || peek() == '(') return atom();
    MathNode total = factor();
    while (begins_factor() && peek() != '(' && peek() != '\\')
      total = node(Kind::multiply, "", std::move(total), factor());
    return total;
  }

  MathNode matrix() {
    const size_t close = text_.find('}', at_);
    if (close == text_.npos) throw NoMath();
    const std::string kind = text_.substr(at_, close - at_);
    if (kind.find("matrix") == kind.npos) throw NoMath();
    at_ = close + 1;
    MathNode rows = node(Kind::list, "[]"), row = rows;
    ++brackets_;
    for (;;) {
      row.items.push_back(relation());
      if (take("&")) continue;
      const bool more = take(kRowEnd);
      rows.items.push_back(std::move(row));
      row = node(Kind::list, "[]");
      if (!more || next_is("\\end")) break;
    }
    --brackets_;
    need("\\end");
    need("{" + kind + "}");
    return rows;
  }

  MathNode command() {
    if (take("\\frac")) {
      MathNode top = argument(), bottom = argument();
      return node(Kind::divide, "", std::move(top), std::move(bottom));
    }
    if (take("\\binom")) {
      MathNode n = argument(), k = argument();
      return node(Kind::call, "binom", std::move(n), std::move(k));
    }
    if (take("\\{")) return brackets('{');
    if (take("\\begin")) {
      need("{");
      return matrix();
    }
    if (take("\\emptyset") || take("\\varnothing")) return node(Kind::list, "{}");
    if (take("\\lfloor")) return node(Kind::call, "floor", group("\\rfloor"));
    if (take("\\lceil")) return node(Kind::call, "ceil", group("\\rceil"));
    ++at_;  // the backslash
    size_t end = at_;
    while (end < text_.size() && is_letter(text_[end])) ++end;
    std::string name = text_.substr(at_, end - at_);
    if (name.empty()) throw NoMath();
    at_ = end;
    if (std::find(std::begin(kFunctions), std::end(kFunctions), name) != std::end(kFunctions))
      return call(name);
    if (name == "mathbb" || name == "overline" || name == "vec" || name == "hat" || name == "bar") {
      MathNode inner = argument();
      if (inner.kind != Kind::symbol) throw NoMath();
      return node(Kind::symbol, name + inner.name);
    }
    return symbol("\\" + name);
  }

  MathNode symbol(std::string name) {
    if (take("_")) {
      const MathNode index = argument();
      if (index.kind != Kind::symbol && index.kind != Kind::number) throw NoMath();
      name += "_" + (index.kind == Kind::symbol
                         ? index.name
                         : std::to_string(static_cast<int64_t>(index.number.approximate())));
    }
    return node(Kind::symbol, std::move(name));
  }

  MathNode letters() {
    size_t end = at_;
    while (end < text_.size() && is_letter(text_[end])) ++end;
    const std::string run = text_.substr(at_, end - at_);
    for (const char* function : kFunctions)
      if (starts_with(run, function)) {
        at_ += std::string_view(function).size();
        return call(function);
      }
    if (starts_with(run, "pi")) return at_ += 2, symbol("\\pi");
    if (run.size() > 3) throw NoMath();  // a word
    return symbol(std::string(1, text_[at_++]));
  }

  MathNode atom() {
    const Depth depth(*this);
    const char c = peek();
    if (is_digit(c) || c == '.') return number_here();
    if (is_letter(c)) return letters();
    if (c == '\\') return command();
    ++at_;
    if (c == '{') return group("}");
    if (c == '(' || c == '[') return brackets(c);
    if (c == '|') {
      ++bars_;
      MathNode inner = sum();
      --bars_;
      need("|");
      return node(Kind::call, "abs", std::move(inner));
    }
    throw NoMath();
  }

  struct Depth {
    explicit Depth(Parser& parser) : parser(parser) {
      if (++parser.depth_ > kDeepestMath * 4)
        throw NoMath();  // a level of nesting passes some four functions
    }
    ~Depth() { --parser.depth_; }
    Parser& parser;
  };

  struct Relation {
    const char *spelling, *name;
  };
  static constexpr Relation kRelations[] = {{"<=", "≤"},   {">=", "≥"},   {"\\le", "≤"}, {"\\ge", "≥"},
                                            {"\\ne", "≠"}, {"\\lt", "<"}, {"\\gt", ">"}, {"\\approx", "="},
                                            {"≈", "="},    {"\\in", "="}, {"=", "="},    {"<", "<"},
                                            {">", ">"}};

  const std::string& text_;
  const bool minus_;
  size_t at_ = 0;
  int depth_ = 0, brackets_ = 0, bars_ = 0;
  size_t commas_ = 0;
  bool plus_minus_ = false;
};

bool is_word(std::string_view text) {
  size_t letters = 0;
  for (const char c : text) {
    if (is_letter(c) || static_cast<unsigned char>(c) >= 0x80)
      ++letters;
    else if (c != ' ' && c != '-' && c != '\'')
      return false;
  }
  return letters > 1;
}

std::optional<MathNode> parse(const std::string& text) {
  try {
    Parser plus(text, false);
    MathNode first = plus.answer();
    if (!plus.saw_plus_minus()) return first;
    return node(Kind::list, "{}", std::move(first), Parser(text, true).answer());
  } catch (const NoMath&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<MathAnswer> parse_math(std::string_view text) {
  if (text.size() > kLongestMath) return std::nullopt;
  MathText plain = plain_math(text);
  if (plain.text.empty()) return std::nullopt;
  if (!plain.words)
    if (std::optional<MathNode> parsed = parse(plain.text))
      return MathAnswer{std::move(*parsed), plain.percent};
  if (plain.words && plain.text.size() == 1 && is_letter(plain.text[0]))
    return MathAnswer{node(Kind::symbol, plain.text), false};
  if (plain.words || is_word(plain.text)) return MathAnswer{node(Kind::words, plain.text), false};
  return std::nullopt;
}

}  // namespace forge
