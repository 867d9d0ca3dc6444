// Filters that make numbers or choose a value.
#include <charconv>
#include <cmath>

#include "core/lib/text/jinja/builtins.h"
#include "core/lib/text/jinja/text_operations.h"

namespace forge::jinja {
namespace {

// Reads a text as Python's int(text, base) does: blanks around, a sign, underscores between digits,
// a prefix that fits the base.
bool integer_of_text(const std::string& bytes, int64_t base, int64_t& value) {
  const std::string text = stripped({bytes, kFromTemplate}, nullptr, true, true).bytes;
  std::string digits;
  size_t i = 0;
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) ++i;
  if (i + 1 < text.size() && text[i] == '0') {
    const char letter = static_cast<char>(text[i + 1] | 32);
    const int64_t prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (prefix && (base == prefix || base == 0)) i += 2, base = prefix;
  }
  if (base == 0) base = 10;
  for (bool after_digit = false; i < text.size(); ++i) {
    if (text[i] == '_' && after_digit && i + 1 < text.size()) {
      after_digit = false;
      continue;
    }
    if (text[i] == '_' || text[i] == '-' || text[i] == '+') return false;
    digits += text[i];
    after_digit = true;
  }
  if (digits.empty()) return false;
  if (negative) digits.insert(digits.begin(), '-');
  const auto [end, problem] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, static_cast<int>(base));
  if (problem == std::errc::result_out_of_range)
    fault("the integer " + text.substr(0, 40) + " does not fit 64 bits");
  return problem == std::errc() && end == digits.data() + digits.size();
}

bool real_of_text(const std::string& bytes, double& value) {
  std::string text;
  for (char c : stripped({bytes, kFromTemplate}, nullptr, true, true).bytes)
    if (c != '_') text += c;
  if (!text.empty() && text[0] == '+') text.erase(0, 1);
  if (text.empty() || text[0] == '+') return false;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem == std::errc::result_out_of_range) value = text[0] == '-' ? -HUGE_VAL : HUGE_VAL;
  return problem != std::errc::invalid_argument && end == text.data() + text.size() &&
         text.find_first_of("xX(") == std::string::npos;
}

bool integer_of_real(double value, Value& result) {
  if (std::isnan(value) || std::isinf(value)) return false;
  if (std::abs(value) >= 9.2e18) fault("an integer result does not fit 64 bits");
  return result = Value(static_cast<int64_t>(value)), true;
}

Value filter_int(Interpreter&, const Value& self, const Bound& arguments) {
  if (self.is_undefined()) undefined_fault(self);
  Value result = arguments.value(0, Value(int64_t{0}));
  if (self.is_integral()) return Value(self.integer());
  if (self.is_float()) {
    if (std::isinf(self.number())) fault("cannot convert float infinity to integer");
    integer_of_real(self.number(), result);
    return result;
  }
  if (!self.is_text()) return result;
  const int64_t base = arguments.integer(1, 10);
  if (base != 0 && (base < 2 || base > 36)) return result;
  int64_t value = 0;
  if (integer_of_text(self.bytes(), base, value)) return Value(value);
  double real = 0;
  if (real_of_text(self.bytes(), real)) {
    if (std::isinf(real)) fault("cannot convert float infinity to integer");
    integer_of_real(real, result);
  }
  return result;
}

Value filter_float(Interpreter&, const Value& self, const Bound& arguments) {
  if (self.is_undefined()) undefined_fault(self);
  if (self.is_number()) return Value(self.number());
  double value = 0;
  if (self.is_text() && real_of_text(self.bytes(), value)) return Value(value);
  return arguments.value(0, Value(0.0));
}

Value filter_abs(Interpreter&, const Value& self, const Bound&) {
  if (self.is_undefined()) undefined_fault(self);
  if (self.is_float()) return Value(std::abs(self.number()));
  if (!self.is_integral()) fault("bad operand type for abs(): '" + type_name(self) + "'");
  return self.integer() < 0 ? negated(self) : Value(self.integer());
}

// Rounds as Python does: the decimal nearest to the exact binary value, ties to even.
Value rounded(const Value& self, int64_t precision) {
  if (self.is_integral()) {
    if (precision >= 0) return Value(self.integer());
    if (precision < -18) return Value(int64_t{0});
    int64_t unit = 1;
    for (int64_t i = 0; i < -precision; ++i) unit *= 10;
    const int64_t half = unit / 2, rest = ((self.integer() % unit) + unit) % unit,
                  down = self.integer() - rest;
    const bool up = rest > half || (rest == half && (down / unit) % 2 != 0);
    return Value(up ? down + unit : down);
  }
  const double value = self.number();
  if (!std::isfinite(value) || precision > 300) return Value(value);
  if (precision < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return Value(std::isinf(unit) ? std::copysign(0.0, value) : std::nearbyint(value / unit) * unit);
  }
  std::string buffer(720, '\0');
  const int length = snprintf(buffer.data(), buffer.size(), "%.*f", static_cast<int>(precision), value);
  double result = value;
  std::from_chars(buffer.data(), buffer.data() + length, result);
  return Value(result);
}

Value filter_round(Interpreter&, const Value& self, const Bound& arguments) {
  if (self.is_undefined()) undefined_fault(self);
  const int64_t precision = arguments.integer(0, 0);
  const std::string method = arguments.has(1) ? arguments.text(1).bytes : "common";
  if (method != "common" && method != "ceil" && method != "floor")
    fault("method must be common, ceil or floor");
  if (!self.is_number()) fault("type " + type_name(self) + " doesn't define __round__ method");
  if (method == "common") return rounded(self, precision);
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = self.number() * unit;
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

Value filter_default(Interpreter&, const Value& self, const Bound& arguments) {
  const bool missing = self.is_undefined() || (arguments.flag(1, false) && !truth(self));
  return missing ? arguments.value(0, Value::text("")) : self;
}

Value filter_length(Interpreter&, const Value& self, const Bound&) { return Value(length_of(self)); }

Value filter_attr(Interpreter&, const Value& self, const Bound& arguments) {
  const std::string& name = arguments.text(0).bytes;
  if (!self.is_dict() || find_method(self, name)) return get_attribute(self, name);
  return Value::undefined(object_name(self) + " has no attribute '" + name + "'");
}

constexpr Builtin kNumberFilters[] = {
    {"default", "default_value boolean", 0, filter_default},
    {"d", "default_value boolean", 0, filter_default},
    {"length", "", 0, filter_length},
    {"count", "", 0, filter_length},
    {"int", "default base", 0, filter_int},
    {"float", "default", 0, filter_float},
    {"abs", "", 0, filter_abs},
    {"round", "precision method", 0, filter_round},
    {"attr", "name", 1, filter_attr},
};

}  // namespace

std::span<const Builtin> number_filters() { return kNumberFilters; }

}  // namespace forge::jinja
