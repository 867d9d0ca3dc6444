#pragma once
// A mathematical answer as a tree, read from LaTeX or plain text.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/learn/reward/fraction.h"

namespace forge {

struct MathNode {
  enum class Kind {
    number,  // `number`
    symbol,  // `name`: x, \pi, \infty
    add,
    multiply,
    divide,
    power,
    negate,
    // A function `name` of its items: sqrt (radicand, degree), log (argument, base), sin, abs,
    // factorial, binom and others.
    call,
    list,      // `name` is the brackets: "()" "[)" "{}" …; a set's order does not count
    unite,     // of intervals and sets; their order does not count
    relation,  // `name`: = < > ≤ ≥ ≠; two items
    words,     // `name`: a text that is no formula
  };
  Kind kind = Kind::number;
  std::string name = {};
  Fraction number = {};
  bool decimal = false;  // a number that was written with a point
  std::vector<MathNode> items = {};
};

struct MathAnswer {
  MathNode node;
  bool percent = false;  // a percent sign follows
};

// The longest text that is read as one answer, in bytes, and the deepest nesting.
constexpr size_t kLongestMath = 2000;
constexpr int kDeepestMath = 50;

// Mathematical LaTeX without its layout: sizes of brackets, spaces, units, delimiters.
struct MathText {
  std::string text;      // the rest, in ASCII where there is an ASCII or LaTeX spelling
  bool percent = false;  // a percent sign stood at the end
  bool words = false;    // \text{…} and nothing else
};
constexpr const char* kRowEnd = "\x01";  // marks the end of a row (\\\\) in MathText::text
// True for 0 to 9.
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Removes the layout from `latex`, which must be valid UTF-8.
MathText plain_math(std::string_view latex);

// Returns nothing for a text that is not a formula, number or word. `text` must be valid UTF-8.
std::optional<MathAnswer> parse_math(std::string_view text);

// True if two answers have the same value. Numbers are compared exactly where both are exact, else
// in long double. Like in math-verify, a number written with a point equals one that rounds to the
// same six decimals. Formulas with unknowns are equal when they agree at six points. Sets and
// unions have no order; tuples and intervals do, with their brackets. `x = 5` answers 5.
// `tolerance` is relative to the reference.
bool same_math(const MathAnswer& reference, const MathAnswer& answer, double tolerance);

}  // namespace forge
