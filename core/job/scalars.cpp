#include "core/job/scalars.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "core/lib/base/text.h"

namespace forge {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct NumberShape {
  bool number = false;    // matches [-+]?(digits[.digits] | .digits)[e[-+]digits]
  bool integral = false;  // digits only
  bool leading_zero = false;
};

NumberShape shape_of(std::string_view text) {
  NumberShape shape;
  size_t i = 0;
  auto digits = [&] {
    size_t begin = i;
    while (i < text.size() && is_digit(text[i])) ++i;
    return i - begin;
  };
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
  size_t first = i, whole = digits(), part = 0;
  shape.integral = true;
  shape.leading_zero = whole > 1 && text[first] == '0';
  if (i < text.size() && text[i] == '.') {
    shape.integral = false;
    ++i;
    part = digits();
  }
  if (whole + part == 0) return {};
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    shape.integral = false;
    ++i;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    if (digits() == 0) return {};
  }
  shape.number = i == text.size();
  return shape;
}

// Returns the reason why a text that looks like a number in some notation is not accepted.
std::string hint_for_number(const std::string& text) {
  std::string word = lower(text);
  std::string plain = word.starts_with("-") || word.starts_with("+") ? word.substr(1) : word;
  if (plain.starts_with("0x") || plain.starts_with("0o") || plain.starts_with("0b"))
    return "write it in base 10";
  if (plain == ".nan" || plain == "nan" || plain == ".inf" || plain == "inf" || plain == "infinity")
    return "it must be finite";
  std::string bare;
  for (char c : word)
    if (c != '_' && c != ',' && c != '\'') bare += c;
  if (bare != word && shape_of(bare).number) return "write digits only: " + bare;
  if (word.ends_with("%") && shape_of(std::string(trim(word.substr(0, word.size() - 1)))).number)
    return "write a share as a number, 5% as 0.05";
  return "";
}

template <class Value>
Reading<Value> refused(std::string problem, std::string hint = "", std::string expected = "") {
  return {std::nullopt, std::move(problem), std::move(hint), std::move(expected)};
}

// Reads the text of a number.
Reading<std::string> number_text(const Node& node, const char* expected) {
  if (!node.is_scalar()) return refused<std::string>(describe(node), "", expected);
  const std::string& text = node.scalar;
  NumberShape shape = shape_of(text);
  if (node.quoting == Quoting::quoted)
    return refused<std::string>(describe(node) + " is text", shape.number ? "remove the quotes" : "",
                                expected);
  if (!shape.number)
    return refused<std::string>(describe(node) + " is not " + expected, hint_for_number(text));
  if (shape.leading_zero)
    return refused<std::string>(text + " begins with a zero, which some YAML readers take as base 8",
                                "write it without the zero");
  return {text[0] == '+' ? text.substr(1) : text};
}

bool is_switch_word(const std::string& word) { return word == "true" || word == "True" || word == "TRUE"; }
bool is_off_word(const std::string& word) { return word == "false" || word == "False" || word == "FALSE"; }

}  // namespace

Reading<double> read_number(const Node& node) {
  const auto [text, problem, hint, expected] = number_text(node, "a number");
  if (!text) return refused<double>(problem, hint, expected);
  double value = 0;
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error == std::errc::result_out_of_range)
    return refused<double>(node.scalar + " is outside what a number can hold");
  if (error != std::errc() || end != text->data() + text->size())
    return refused<double>(describe(node) + " is not a number");
  return {value};
}

Reading<int64_t> read_integer(const Node& node) {
  const auto [text, problem, hint, expected] = number_text(node, "a whole number");
  if (!text) return refused<int64_t>(problem, hint, expected);
  if (shape_of(*text).integral) {
    int64_t value = 0;
    auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc()) return refused<int64_t>(node.scalar + " does not fit 64 bits");
    return {value};
  }
  Reading<double> number = read_number(node);
  if (!number.value) return refused<int64_t>(number.message(), number.hint);
  // Above 2^53 a double no longer holds every whole number.
  if (*number.value != std::floor(*number.value) || std::abs(*number.value) > 9007199254740992.0)
    return refused<int64_t>(node.scalar + " is not a whole number");
  return {static_cast<int64_t>(*number.value)};
}

Reading<bool> read_boolean(const Node& node) {
  if (!node.is_scalar()) return refused<bool>(describe(node) + ", expected true or false");
  std::string word = lower(node.scalar);
  if (node.quoting == Quoting::quoted)
    return refused<bool>(describe(node) + " is text, expected true or false",
                         word == "true" || word == "false" ? "remove the quotes" : "");
  if (is_switch_word(node.scalar)) return {true};
  if (is_off_word(node.scalar)) return {false};
  std::string hint;
  if (word == "yes" || word == "on" || word == "y" || word == "1") hint = "write true";
  if (word == "no" || word == "off" || word == "n" || word == "0") hint = "write false";
  return refused<bool>(describe(node) + " is neither true nor false", hint);
}

Reading<std::string> read_text(const Node& node) {
  if (!node.is_scalar()) return refused<std::string>(describe(node) + ", expected text");
  if (node.quoting == Quoting::plain) {
    bool word = is_switch_word(node.scalar) || is_off_word(node.scalar);
    if (word || shape_of(node.scalar).number)
      return refused<std::string>(node.scalar + " is a " + (word ? "switch" : "number") + ", expected text",
                                  "write \"" + node.scalar + "\"");
  }
  if (node.scalar.find('\0') != std::string::npos) return refused<std::string>("the text holds a NUL byte");
  return {node.scalar};
}

Reading<int64_t> read_bytes(const Node& node) {
  if (!node.is_scalar() || node.scalar.empty() || is_digit(node.scalar.back())) return read_integer(node);
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"kib", 1024.0}, {"mib", 1048576.0}, {"gib", 1073741824.0}, {"tib", 1099511627776.0},
      {"kb", 1e3},     {"mb", 1e6},        {"gb", 1e9},           {"tb", 1e12},
      {"b", 1.0}};
  for (const auto& [unit, unit_bytes] : kUnits) {
    if (!lower(node.scalar).ends_with(unit)) continue;
    Node number = node;
    number.scalar = trim(std::string_view(node.scalar).substr(0, node.scalar.size() - unit.size()));
    number.quoting = Quoting::plain;
    Reading<double> size = read_number(number);
    if (!size.value) break;
    double bytes = *size.value * unit_bytes;
    if (!(std::abs(bytes) < 9e18)) return refused<int64_t>(describe(node) + " does not fit 64 bits");
    return {static_cast<int64_t>(std::llround(bytes))};
  }
  return refused<int64_t>(describe(node) + " is not a size", "write bytes, or 512MiB, 24GiB, 80GB");
}

Reading<double> read_seconds(const Node& node) {
  if (!node.is_scalar() || shape_of(node.scalar).number) return read_number(node);
  double total = 0;
  std::string number;
  bool good = !node.scalar.empty();
  for (char c : node.scalar) {
    if (is_digit(c) || c == '.') {
      number += c;
      continue;
    }
    if (c == ' ') continue;
    double unit = c == 's' ? 1 : c == 'm' ? 60 : c == 'h' ? 3600 : c == 'd' ? 86400 : 0;
    double value = 0;
    auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (unit == 0 || number.empty() || error != std::errc() || end != number.data() + number.size())
      good = false;
    total += value * unit;
    number.clear();
  }
  if (!good || !number.empty())
    return refused<double>(describe(node) + " is not a time", "write seconds, or 90s, 30m, 1h30m");
  return {total};
}

}  // namespace forge
