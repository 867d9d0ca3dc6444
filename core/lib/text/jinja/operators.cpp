// Arithmetic with Python's rules. Integers are 64 bits wide, and overflow is a fault, not a wrong
// number.
#include <cmath>

#include "core/lib/text/jinja/interpreter.h"
#include "core/lib/text/jinja/text_operations.h"

namespace forge::jinja {
namespace {

[[noreturn]] void overflow() { fault("an integer result does not fit 64 bits"); }

[[noreturn]] void unsupported(std::string_view op, const Value& left, const Value& right) {
  if (op == "+" && left.is_text())
    fault("can only concatenate str (not \"" + type_name(right) + "\") to str");
  fault("unsupported operand type(s) for " + std::string(op) + ": '" + type_name(left) + "' and '" +
        type_name(right) + "'");
}

int64_t floor_divide(int64_t a, int64_t b) {
  if (a == INT64_MIN && b == -1) overflow();
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0) && ((a < 0) != (b < 0)));
}

int64_t modulo(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
}

double modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && ((rest < 0) != (b < 0))) rest += b;
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

Value integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) fault("0.0 cannot be raised to a negative power");
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  if (base == 0 || base == 1) return Value(exponent == 0 ? int64_t{1} : base);
  if (base == -1) return Value(exponent % 2 ? int64_t{-1} : int64_t{1});
  int64_t result = 1;
  for (; exponent > 0; --exponent)
    if (__builtin_mul_overflow(result, base, &result)) overflow();
  return Value(result);
}

Value integer_arithmetic(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "+"   ? __builtin_add_overflow(a, b, &result)
      : op == "-" ? __builtin_sub_overflow(a, b, &result)
                  : op == "*" && __builtin_mul_overflow(a, b, &result))
    overflow();
  if (op == "+" || op == "-" || op == "*") return Value(result);
  if (op == "**") return integer_power(a, b);
  if (b == 0) fault(op == "/" ? "division by zero" : "integer division or modulo by zero");
  if (op == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
  return Value(op == "//" ? floor_divide(a, b) : modulo(a, b));
}

Value real_arithmetic(std::string_view op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "**") {
    if (a == 0 && b < 0) fault("0.0 cannot be raised to a negative power");
    if (a < 0 && b != std::floor(b)) fault("complex numbers are not supported");
    const double result = std::pow(a, b);
    if (std::isinf(result) && !std::isinf(a) && !std::isinf(b)) fault("Result too large");
    return Value(result);
  }
  if (b == 0)
    fault(op == "/"    ? "float division by zero"
          : op == "//" ? "float floor division by zero"
                       : "float modulo by zero");
  if (op == "/") return Value(a / b);
  if (op == "%") return Value(modulo(a, b));
  // The quotient is that of a − a % b, as in CPython, so that both operators agree.
  const double rest = modulo(a, b);
  const double quotient = (a - rest) / b;
  if (quotient == 0) return Value(std::copysign(0.0, a / b));
  const double down = std::floor(quotient);
  return Value(quotient - down > 0.5 ? down + 1 : down);
}

Value repeat(Interpreter& interpreter, const Value& value, int64_t count) {
  count = std::max<int64_t>(count, 0);
  if (value.is_text()) {
    const MarkedText& text = value.text();
    if (text.size() == 0) return value;
    if (count > interpreter.limits().output_bytes / text.size())
      fault("a text repeated " + std::to_string(count) + " times is too long");
    interpreter.spend_text(text.size() * count);
    interpreter.spend(count);
    TextBuilder out;
    for (int64_t i = 0; i < count; ++i) out.add(text);
    return Value(out.take());
  }
  const auto& items = value.items();
  if (!items.empty() && count > kMaxWeight / static_cast<int64_t>(items.size()))
    fault("a list repeated " + std::to_string(count) + " times is too long");
  interpreter.spend(static_cast<int64_t>(items.size()) * count);
  std::vector<Value> out;
  for (int64_t i = 0; i < count && !items.empty(); ++i) out.insert(out.end(), items.begin(), items.end());
  return Value::list(std::move(out), value.sequence().kind);
}

Value add_lists(Interpreter& interpreter, const Value& left, const Value& right) {
  if (left.sequence().kind != right.sequence().kind)
    fault("can only concatenate " + type_name(left) + " (not \"" + type_name(right) + "\") to " +
          type_name(left));
  std::vector<Value> items = left.items();
  items.insert(items.end(), right.items().begin(), right.items().end());
  interpreter.spend(static_cast<int64_t>(items.size()));
  return Value::list(std::move(items), left.sequence().kind);
}

}  // namespace

Value arithmetic(Interpreter& interpreter, std::string_view op, const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral())
    return integer_arithmetic(op, left.integer(), right.integer());
  if (left.is_number() && right.is_number()) return real_arithmetic(op, left.number(), right.number());
  if (op == "%" && left.is_text()) return Value(percent_format(interpreter, left.text(), right));
  if (left.is_undefined()) undefined_fault(left);
  if (right.is_undefined() && !left.is_text()) undefined_fault(right);
  if (right.is_undefined() && op == "+") undefined_fault(right);
  if (op == "+" && left.is_text() && right.is_text()) {
    interpreter.spend_text(left.text().size() + right.text().size());
    const bool safe = left.text().safe || right.text().safe;
    TextBuilder out;
    out.add(safe ? html_escaped(left.text()) : left.text());
    out.add(safe ? html_escaped(right.text()) : right.text());
    MarkedText sum = out.take();
    sum.safe = safe;
    return Value(std::move(sum));
  }
  if (op == "+" && left.is_array() && right.is_array()) return add_lists(interpreter, left, right);
  if (op == "*" && right.is_integral() && (left.is_text() || left.is_array()))
    return repeat(interpreter, left, right.integer());
  if (op == "*" && left.is_integral() && (right.is_text() || right.is_array()))
    return repeat(interpreter, right, left.integer());
  unsupported(op, left, right);
}

Value negated(const Value& value) {
  if (value.is_undefined()) undefined_fault(value);
  if (value.is_float()) return Value(-value.number());
  if (!value.is_integral()) fault("bad operand type for unary -: '" + type_name(value) + "'");
  if (value.integer() == INT64_MIN) overflow();
  return Value(-value.integer());
}

}  // namespace forge::jinja
