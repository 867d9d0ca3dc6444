#pragma once
// Reads numbers in the forms that models write: $1,234.50, −3, 1{,}000, 3 1/2, \frac{3}{4}, 1.2
// \times 10^{5}, 50 %. The decimal separator is the point; a comma separates thousands.
//
//   last_number("6 * 7 = 42 apples")   // 42
//   whole_number("x = 42\\text{ cm}")  // 42: only a number, with a name and a unit
//   whole_number("2^{10}")             // nothing
#include <optional>
#include <string_view>

#include "core/learn/reward/fraction.h"

namespace forge {

struct Number {
  Fraction value;  // 50 % is 50
  bool percent = false;
};

// Return the first and the last number of a text, which must be valid UTF-8. A number that is part
// of a word, an exponent or an index does not count.
std::optional<Number> first_number(std::string_view text);
std::optional<Number> last_number(std::string_view text);
// Returns the number that the whole text consists of, with at most a name and an equals sign before
// it and a unit after it.
std::optional<Number> whole_number(std::string_view text);

// True if two numbers are equal. Like in math-verify, a percentage equals its number and its
// hundredth, since data sets write both. `tolerance` is relative to the reference; 0 compares
// exactly.
bool same_number(const Number& reference, const Number& answer, double tolerance);

}  // namespace forge
