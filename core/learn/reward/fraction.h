#pragma once
// Fractions: numbers of any length that are compared exactly. 0.1 is one tenth, and
// 1234567890123456789.0 differs from its neighbours.
//
//   parse_decimal("-1.50e2") == parse_decimal("-150")
//
// Four operations take some hundred lines; GMP would be one more library to ship.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace forge {

// A natural number, in base 10^9, lowest first, without leading zeros; empty is 0.
using Natural = std::vector<uint32_t>;

struct Fraction {
  bool negative = false;
  Natural top, bottom{1};  // bottom is never 0; not reduced

  long double approximate() const;
  bool is_zero() const { return top.empty(); }
  bool operator==(const Fraction& other) const;
};

// Reads "12", "-3.50", ".5", "1e-3": digits, at most one point, an exponent of at most four digits.
// Returns nothing for other texts, and for more than kMostDigits digits.
constexpr size_t kMostDigits = 1000;
std::optional<Fraction> parse_decimal(std::string_view text);

Fraction add(const Fraction& a, const Fraction& b);
// Returns nothing when b is 0.
std::optional<Fraction> divide(const Fraction& a, const Fraction& b);
Fraction multiply(const Fraction& a, const Fraction& b);

}  // namespace forge
