#include "core/lib/io/python_json.h"

#include <cmath>

#include "core/lib/base/format.h"


namespace forge {
namespace {

constexpr double kTwoTo63 = 9223372036854775808.0;

// Returns a text that no text of the document begins with. Numbers that the library cannot write
// follow it, as texts.
std::string mark_for(const Json& value) {
  const std::string text = value.dump();
  std::string mark = "wide:";
  while (text.find('"' + mark) != text.npos) mark.insert(0, 1, '~');
  return mark;
}

void mark_numbers(Json& value, const std::string& mark) {
  if (value.is_structured())
    for (Json& item : value) mark_numbers(item, mark);
  if (!value.is_number_float()) return;
  const double number = value.get<double>();
  if (std::isnan(number)) value = mark + "NaN";
  else if (std::isinf(number)) value = mark + (number < 0 ? "-Infinity" : "Infinity");
  else if (std::fabs(number) >= kTwoTo63 && std::fabs(number) < 1e40) value = fmt::format("{}{:.0f}", mark, number);
}

}  // namespace

Json parse_python_json(std::string_view text, const std::string& name, ErrorKind kind) {
  return parse_json(text, name, kind, {.wide_integers = true, .python_numbers = true});
}

std::string dump_python_json(const Json& value, int indent) {
  const std::string mark = mark_for(value);
  Json marked = value;
  mark_numbers(marked, mark);
  std::string text = marked.dump(indent);
  for (size_t at = 0; (at = text.find('"' + mark, at)) != text.npos;) {
    const size_t digits = at + 1 + mark.size(), end = text.find('"', digits);
    text.replace(at, end + 1 - at, text.substr(digits, end - digits));
  }
  return text;
}

}  // namespace forge
