#include "core/learn/reward/fraction.h"

#include <algorithm>
#include <cmath>

namespace forge {
namespace {

constexpr uint64_t kBase = 1'000'000'000;

void trim_zeros(Natural& number) {
  while (!number.empty() && number.back() == 0) number.pop_back();
}

Natural natural(std::string digits) {
  Natural number;
  for (size_t end = digits.size(); end > 0;) {
    const size_t begin = end > 9 ? end - 9 : 0;
    number.push_back(static_cast<uint32_t>(std::stoul(digits.substr(begin, end - begin))));
    end = begin;
  }
  trim_zeros(number);
  return number;
}

// Multiplies by the schoolbook method: numbers here have tens of digits.
Natural times(const Natural& a, const Natural& b) {
  Natural product(a.size() + b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    uint64_t carry = 0;
    for (size_t k = 0; k < b.size() || carry > 0; ++k) {
      const uint64_t sum = product[i + k] + carry + (k < b.size() ? uint64_t{a[i]} * b[k] : 0);
      product[i + k] = static_cast<uint32_t>(sum % kBase);
      carry = sum / kBase;
    }
  }
  trim_zeros(product);
  return product;
}

Natural plus(Natural a, const Natural& b) {
  a.resize(std::max(a.size(), b.size()) + 1);
  uint64_t carry = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const uint64_t sum = a[i] + carry + (i < b.size() ? b[i] : 0);
    a[i] = static_cast<uint32_t>(sum % kBase);
    carry = sum / kBase;
  }
  trim_zeros(a);
  return a;
}

bool less(const Natural& a, const Natural& b) {
  if (a.size() != b.size()) return a.size() < b.size();
  return std::lexicographical_compare(a.rbegin(), a.rend(), b.rbegin(), b.rend());
}

// Returns a − b, for a ≥ b.
Natural minus(Natural a, const Natural& b) {
  int64_t borrow = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t difference = int64_t{a[i]} - borrow - (i < b.size() ? b[i] : 0);
    borrow = difference < 0;
    a[i] = static_cast<uint32_t>(difference + (borrow ? static_cast<int64_t>(kBase) : 0));
  }
  trim_zeros(a);
  return a;
}

// Returns a number's mantissa, with its power of the base in `power`, so that long numbers do not
// overflow before they are divided.
long double mantissa(const Natural& number, long double& power) {
  long double value = 0;
  const size_t used = std::min<size_t>(number.size(), 4);
  for (size_t i = 0; i < used; ++i) value = value * kBase + number[number.size() - 1 - i];
  power = static_cast<long double>(number.size() - used);
  return value;
}

}  // namespace

long double Fraction::approximate() const {
  long double up = 0, down = 0;
  const long double value = mantissa(top, up) / mantissa(bottom, down) * std::pow(1e9L, up - down);
  return negative ? -value : value;
}

bool Fraction::operator==(const Fraction& other) const {
  if (is_zero() || other.is_zero()) return is_zero() && other.is_zero();
  return negative == other.negative && times(top, other.bottom) == times(other.top, bottom);
}

std::optional<Fraction> parse_decimal(std::string_view text) {
  Fraction result;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    result.negative = text[0] == '-';
    text.remove_prefix(1);
  }
  std::string digits;
  int64_t behind = 0, exponent = 0;
  bool point = false;
  size_t i = 0;
  for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
    if (text[i] == '.' && !point)
      point = true;
    else if (text[i] >= '0' && text[i] <= '9')
      digits += text[i], behind += point;
    else
      return std::nullopt;
  }
  if (digits.empty() || digits.size() > kMostDigits) return std::nullopt;
  if (i < text.size()) {
    std::string_view power = text.substr(i + 1);
    const bool down = !power.empty() && power[0] == '-';
    if (!power.empty() && (power[0] == '-' || power[0] == '+')) power.remove_prefix(1);
    if (power.empty() || power.size() > 4 || power.find_first_not_of("0123456789") != power.npos)
      return std::nullopt;
    exponent = std::stoll(std::string(power)) * (down ? -1 : 1);
  }
  exponent -= behind;
  if (exponent > 0) digits.append(static_cast<size_t>(exponent), '0');
  result.top = natural(digits);
  if (exponent < 0) result.bottom = natural("1" + std::string(static_cast<size_t>(-exponent), '0'));
  return result;
}

Fraction add(const Fraction& a, const Fraction& b) {
  const Natural left = times(a.top, b.bottom), right = times(b.top, a.bottom);
  Fraction sum{a.negative, {}, times(a.bottom, b.bottom)};
  if (a.negative == b.negative) {
    sum.top = plus(left, right);
  } else if (less(left, right)) {
    sum.negative = b.negative;
    sum.top = minus(right, left);
  } else {
    sum.top = minus(left, right);
  }
  return sum;
}

Fraction multiply(const Fraction& a, const Fraction& b) {
  return {a.negative != b.negative, times(a.top, b.top), times(a.bottom, b.bottom)};
}

std::optional<Fraction> divide(const Fraction& a, const Fraction& b) {
  if (b.is_zero()) return std::nullopt;
  return multiply(a, {b.negative, b.bottom, b.top});
}

}  // namespace forge
