#pragma once
// Numbers as models write them: $1,234.50, −3, 1{,}000, 3 1/2, \frac{3}{4}, 1.2 \times 10^{5}, 50 %. The decimal
// separator is the point; a comma separates thousands.
//
//   last_number("6 * 7 = 42 apples")   // 42
//   whole_number("x = 42\\text{ cm}")  // 42: nothing but a number, with what stands around one
//   whole_number("2^{10}")             // nothing
#include <optional>
#include <string_view>

#include "core/reward/fraction.h"

namespace forge {

struct Number {
  Fraction value;  // 50 % is 50
  bool percent = false;
};

// `text` must be valid UTF-8. A number that is part of a word, an exponent or an index is none.
std::optional<Number> first_number(std::string_view text);
std::optional<Number> last_number(std::string_view text);
// The text is one number, with at most a name and an equals sign before it and a unit behind.
std::optional<Number> whole_number(std::string_view text);

// A percentage equals its number and its hundredth, since data sets write both; as math-verify has it. `tolerance` is
// relative to the reference; 0 compares exactly.
bool same_number(const Number& reference, const Number& answer, double tolerance);

}  // namespace forge
