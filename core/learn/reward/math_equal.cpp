#include "core/learn/reward/math_node.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "core/lib/base/random.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

using Kind = MathNode::Kind;
using Value = std::complex<long double>;

constexpr long double kNan = std::numeric_limits<long double>::quiet_NaN();
constexpr long double kPi = 3.141592653589793238462643383279502884L;
constexpr int kPoints = 6, kLeastPoints = 3;  // at which formulas are compared, and must have values
constexpr long double kRounding = 1e-12L;     // of evaluation

// Returns the value of an unknown at a point: between 0.3 and 2.7, at every other point negative,
// so that √x² is not x.
long double value_of_symbol(const std::string& name, int point) {
  const double share = uniform(20240229, stream_of("unknown/" + name), static_cast<uint64_t>(point));
  const long double size = 0.3L + 2.4L * static_cast<long double>(share);
  return point % 2 == 0 ? size : -size;
}

Value evaluate(const MathNode& node, int point);

Value symbol(const std::string& name, int point) {
  if (name == "\\pi") return kPi;
  if (name == "e") return std::exp(1.0L);
  if (name == "i") return Value(0, 1);
  return value_of_symbol(name, point);
}

bool is_real(const Value& value) { return std::abs(value.imag()) <= 1e-15L * (1 + std::abs(value.real())); }

Value power(const Value& base, const Value& exponent) {
  // A whole power of a real number stays real.
  const long double whole = std::round(exponent.real());
  if (is_real(exponent) && std::abs(exponent.real() - whole) < 1e-15L && std::abs(whole) <= 4096) {
    Value result = 1;
    Value factor = whole < 0 ? Value(1) / base : base;
    for (auto left = static_cast<int64_t>(std::abs(whole)); left > 0; left /= 2, factor *= factor)
      if (left % 2) result *= factor;
    return result;
  }
  if (is_real(base) && is_real(exponent) && base.real() > 0) return std::pow(base.real(), exponent.real());
  return std::pow(base, exponent);
}

// The functions of one complex argument.
struct Function {
  std::string_view name;
  Value (*of)(const Value& x);
};
constexpr Function kFunctions[] = {
    {"sin", std::sin<long double>},     {"cos", std::cos<long double>},     {"tan", std::tan<long double>},
    {"arcsin", std::asin<long double>}, {"arccos", std::acos<long double>}, {"arctan", std::atan<long double>},
    {"sinh", std::sinh<long double>},   {"cosh", std::cosh<long double>},   {"tanh", std::tanh<long double>},
    {"exp", std::exp<long double>},     {"ln", std::log<long double>},
};

Value call(const std::string& name, const std::vector<Value>& arguments) {
  const Value x = arguments[0];
  for (const Function& function : kFunctions)
    if (name == function.name) return function.of(x);
  if (name == "sqrt") return arguments.size() > 1 ? power(x, Value(1) / arguments[1]) : std::sqrt(x);
  if (name == "cot") return Value(1) / std::tan(x);
  if (name == "sec") return Value(1) / std::cos(x);
  if (name == "csc") return Value(1) / std::sin(x);
  if (name == "abs") return std::abs(x);
  // Without a base it is the natural logarithm, like sympy's and math-verify's.
  if (name == "log") return arguments.size() > 1 ? std::log(x) / std::log(arguments[1]) : std::log(x);
  if (!is_real(x)) return kNan;
  if (name == "floor") return std::floor(x.real());
  if (name == "ceil") return std::ceil(x.real());
  if (name == "factorial") return x.real() < 0 ? kNan : std::tgamma(x.real() + 1);
  if (name == "binom" && is_real(arguments[1])) {
    const long double n = x.real(), k = arguments[1].real();
    return std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1));
  }
  return kNan;
}

Value evaluate(const MathNode& node, int point) {
  switch (node.kind) {
    case Kind::number:
      return node.number.approximate();
    case Kind::symbol:
      return symbol(node.name, point);
    case Kind::negate:
      return -evaluate(node.items[0], point);
    case Kind::divide:
      return evaluate(node.items[0], point) / evaluate(node.items[1], point);
    case Kind::power:
      return power(evaluate(node.items[0], point), evaluate(node.items[1], point));
    case Kind::add:
    case Kind::multiply: {
      Value total = node.kind == Kind::add ? 0 : 1;
      for (const MathNode& item : node.items) {
        const Value value = evaluate(item, point);
        total = node.kind == Kind::add ? total + value : total * value;
      }
      return total;
    }
    case Kind::call: {
      std::vector<Value> arguments;
      for (const MathNode& item : node.items) arguments.push_back(evaluate(item, point));
      return call(node.name, arguments);
    }
    case Kind::list:
    case Kind::unite:
    case Kind::relation:
    case Kind::words:
      break;
  }
  return kNan;
}

// Returns the exact value of an expression, if it has only whole powers and the four operations and
// its numbers stay short.
std::optional<Fraction> exact(const MathNode& node) {
  constexpr size_t kLimbs = 200;
  std::vector<Fraction> items;
  if (node.kind == Kind::number) return node.number;
  if (node.kind != Kind::negate && node.kind != Kind::add && node.kind != Kind::multiply &&
      node.kind != Kind::divide && node.kind != Kind::power)
    return std::nullopt;
  for (const MathNode& item : node.items) {
    std::optional<Fraction> value = exact(item);
    if (!value || value->top.size() + value->bottom.size() > kLimbs) return std::nullopt;
    items.push_back(std::move(*value));
  }
  Fraction total = items[0];
  if (node.kind == Kind::negate) {
    total.negative = !total.negative;
    return total;
  }
  if (node.kind == Kind::divide) return divide(items[0], items[1]);
  if (node.kind == Kind::power) {
    const long double times = items[1].approximate();
    if (!(items[1] == *parse_decimal(std::to_string(static_cast<int64_t>(times)))) || std::abs(times) > 64)
      return std::nullopt;
    Fraction result{false, {1}, {1}};
    for (int64_t i = 0; i < std::abs(static_cast<int64_t>(times)); ++i) {
      result = multiply(result, items[0]);
      if (result.top.size() + result.bottom.size() > kLimbs) return std::nullopt;
    }
    return times < 0 ? divide({false, {1}, {1}}, result) : std::optional(result);
  }
  for (size_t i = 1; i < items.size(); ++i)
    total = node.kind == Kind::add ? add(total, items[i]) : multiply(total, items[i]);
  return total;
}

bool any_of(const MathNode& node, bool (*holds)(const MathNode&)) {
  if (holds(node)) return true;
  return std::any_of(node.items.begin(), node.items.end(),
                     [&](const MathNode& item) { return any_of(item, holds); });
}

bool has_unknown(const MathNode& node) {
  return any_of(node, [](const MathNode& n) {
    return n.kind == Kind::symbol && n.name != "\\pi" && n.name != "e" && n.name != "i";
  });
}
bool has_decimal(const MathNode& node) {
  return any_of(node, [](const MathNode& n) { return n.decimal; });
}
bool is_value(const MathNode& node) {
  return !any_of(node, [](const MathNode& n) {
    return n.kind == Kind::list || n.kind == Kind::unite || n.kind == Kind::relation ||
           n.kind == Kind::words || (n.kind == Kind::symbol && n.name == "\\infty");
  });
}

// Returns 1 for ∞, −1 for −∞, 0 for all else.
int infinity(const MathNode& node) {
  if (node.kind == Kind::symbol && node.name == "\\infty") return 1;
  return node.kind == Kind::negate ? -infinity(node.items[0]) : 0;
}

bool near(const Value& reference, const Value& answer, long double tolerance, bool rounded) {
  const long double difference = std::abs(reference - answer);
  if (difference <= std::max(kRounding, tolerance) * std::abs(reference)) return true;
  if (!rounded) return difference <= kRounding * 1e-3L;
  const auto digits = [](long double value) { return std::round(value * 1e6L); };
  return digits(reference.real()) == digits(answer.real()) &&
         digits(reference.imag()) == digits(answer.imag());
}

bool is_finite(const Value& value) { return std::isfinite(value.real()) && std::isfinite(value.imag()); }

bool is_whole(const Value& value) {
  return value.real() == std::round(value.real()) && value.imag() == std::round(value.imag());
}

bool same_values(const MathNode& reference, const MathNode& answer, double tolerance) {
  const bool decimal = has_decimal(reference) || has_decimal(answer);
  const bool unknown = has_unknown(reference) || has_unknown(answer);
  if (!unknown && !decimal && tolerance == 0) {
    const std::optional<Fraction> a = exact(reference), b = exact(answer);
    if (a && b) return *a == *b;
  }
  int agreed = 0;
  for (int point = 0; point < (unknown ? kPoints : 1); ++point) {
    const Value a = evaluate(reference, point), b = evaluate(answer, point);
    if (is_finite(a) != is_finite(b)) return false;
    if (!is_finite(a)) continue;  // both have no value here
    // A whole number has no digits that could be left out.
    if (!near(a, b, tolerance, decimal && !is_whole(a) && !is_whole(b))) return false;
    ++agreed;
  }
  return agreed >= (unknown ? kLeastPoints : 1);
}

bool same(const MathNode& reference, const MathNode& answer, double tolerance);

bool same_in_order(const std::vector<MathNode>& a, const std::vector<MathNode>& b, double tolerance) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const MathNode& x, const MathNode& y) { return same(x, y, tolerance); });
}

bool same_in_any_order(const std::vector<MathNode>& a, const std::vector<MathNode>& b, double tolerance) {
  if (a.size() != b.size()) return false;
  std::vector<bool> used(b.size());
  for (const MathNode& item : a) {
    size_t k = 0;
    while (k < b.size() && (used[k] || !same(item, b[k], tolerance))) ++k;
    if (k == b.size()) return false;
    used[k] = true;
  }
  return true;
}

MathNode difference(const MathNode& relation) {
  MathNode negative{Kind::negate, "", {}, false, {relation.items[1]}};
  return {Kind::add, "", {}, false, {relation.items[0], std::move(negative)}};
}

std::string turned(const std::string& relation) {
  if (relation == "<") return ">";
  if (relation == ">") return "<";
  if (relation == "≤") return "≥";
  if (relation == "≥") return "≤";
  return relation;
}

bool same_relations(const MathNode& a, const MathNode& b, double tolerance) {
  if (a.name == b.name && same_in_order(a.items, b.items, tolerance)) return true;
  if (!is_value(a.items[0]) || !is_value(a.items[1]) || !is_value(b.items[0]) || !is_value(b.items[1]))
    return false;
  const MathNode left = difference(a), right = difference(b);
  const MathNode negative{Kind::negate, "", {}, false, {right}};
  return (a.name == b.name && same_values(left, right, tolerance)) ||
         (turned(a.name) == b.name && same_values(left, negative, tolerance));
}

std::string words(const std::string& text) {
  std::string plain;
  for (const std::string& word : split(lower(text), ' '))
    if (!word.empty()) plain += (plain.empty() ? "" : " ") + word;
  return plain;
}

// Returns 5 for `x = 5`, where the other side is not an equation.
const MathNode& result_of(const MathNode& node, const MathNode& other) {
  const bool named = node.kind == Kind::relation && node.name == "=" && node.items[0].kind == Kind::symbol;
  return named && other.kind != Kind::relation ? node.items[1] : node;
}

bool same(const MathNode& reference, const MathNode& answer, double tolerance) {
  const MathNode& a = result_of(reference, answer);
  const MathNode& b = result_of(answer, reference);
  if (infinity(a) != 0 || infinity(b) != 0) return infinity(a) == infinity(b);
  if (is_value(a) && is_value(b)) return same_values(a, b, tolerance);
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::words:
      return words(a.name) == words(b.name);
    case Kind::unite:
      return same_in_any_order(a.items, b.items, tolerance);
    case Kind::relation:
      return same_relations(a, b, tolerance);
    case Kind::list:
      if (a.name != b.name) return false;
      return a.name == "{}" ? same_in_any_order(a.items, b.items, tolerance)
                            : same_in_order(a.items, b.items, tolerance);
    default:
      return a.name == b.name && same_in_order(a.items, b.items, tolerance);
  }
}

MathNode hundredth(const MathNode& node) {
  return {Kind::divide, "", {}, false, {node, {Kind::number, "", *parse_decimal("100"), false, {}}}};
}

}  // namespace

bool same_math(const MathAnswer& reference, const MathAnswer& answer, double tolerance) {
  if (same(reference.node, answer.node, tolerance)) return true;
  if (reference.percent == answer.percent) return false;
  return reference.percent ? same(hundredth(reference.node), answer.node, tolerance)
                           : same(reference.node, hundredth(answer.node), tolerance);
}

}  // namespace forge
