// str() and repr() of values, byte for byte as CPython prints them.
#include <array>
#include <charconv>
#include <cmath>

#include "core/lib/base/format.h"
#include "core/lib/text/jinja/value.h"

namespace forge::jinja {

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific).ptr;
  const std::string text(buffer.data(), end);  // d.ddde±xx, shortest digits
  const size_t mark = text.find('e');
  const int exponent = std::stoi(text.substr(mark + 1));
  const bool negative = text[0] == '-';
  std::string digits;
  for (char c : text.substr(0, mark))
    if (c >= '0' && c <= '9') digits += c;
  std::string out = negative ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (digits.size() > 1) out += "." + digits.substr(1);
    const int size = std::abs(exponent);
    return out + "e" + (exponent < 0 ? "-" : "+") + (size < 10 ? "0" : "") + std::to_string(size);
  }
  if (exponent < 0) return out + "0." + std::string(-exponent - 1, '0') + digits;
  if (static_cast<int>(digits.size()) <= exponent + 1)
    return out + digits + std::string(exponent + 1 - digits.size(), '0') + ".0";
  return out + digits.substr(0, exponent + 1) + "." + digits.substr(exponent + 1);
}

namespace {

std::string escaped(uint32_t c, char quote) {
  if (c == static_cast<uint32_t>(quote) || c == '\\') return {'\\', static_cast<char>(c)};
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  if (is_printable(c)) return utf8_of(c);
  if (c < 0x100) return fmt::format("\\x{:02x}", c);
  return c < 0x10000 ? fmt::format("\\u{:04x}", c) : fmt::format("\\U{:08x}", c);
}

constexpr int64_t kMaxPrinted = 64 << 20;

class Printer {
 public:
  void print(const Value& value, int depth) {
    if (depth > 2 * kMaxDepth || out.size() > kMaxPrinted) fault("a value too large to print");
    if (value.is_text()) return quote(value.text());
    if (value.is_dict()) return print_dict(value.dict(), depth);
    if (value.is_sequence()) return print_sequence(value, depth);
    if (value.is_namespace()) return print_namespace(value.name_space(), depth);
    add(scalar(value));
  }
  static std::string scalar(const Value& value) {
    if (value.is_none()) return "None";
    if (value.is_bool()) return value.boolean() ? "True" : "False";
    if (value.is_int()) return std::to_string(value.integer());
    if (value.is_float()) return float_text(value.number());
    if (value.is_undefined()) return "Undefined";
    if (value.is_loop())
      return "<LoopContext " + std::to_string(value.loop().index0 + 1) + "/" +
             std::to_string(value.loop().items->items.size()) + ">";
    if (value.is_callable() && value.callable().macro) return "<Macro '" + value.callable().name + "'>";
    if (value.is_callable()) return "<function " + value.callable().name + ">";
    return "<" + type_name(value) + ">";
  }
  TextBuilder out;

 private:
  void add(std::string_view text) { out.add(text, kFromTemplate); }

  void quote(const MarkedText& text) {
    const bool doubled =
        text.bytes.find('\'') != std::string::npos && text.bytes.find('"') == std::string::npos;
    const char quote = doubled ? '"' : '\'';
    const Mark outer = text.bytes.empty() ? kFromTemplate : text.mark_at(0);
    out.add(std::string(1, quote), outer);
    out.add(mapped(text, [quote](uint32_t c) { return escaped(c, quote); }));
    out.add(std::string(1, quote), outer);
  }

  void print_items(const std::vector<Value>& items, int depth) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i) add(", ");
      print(items[i], depth + 1);
    }
  }

  void print_sequence(const Value& value, int depth) {
    if (value.is_sequence(SequenceKind::range)) return add(range_text(value.sequence()));
    if (value.is_generator()) return add("<generator object>");
    const bool list = value.is_sequence(SequenceKind::list),
               tuple = value.is_sequence(SequenceKind::tuple);
    add(list ? "[" : tuple ? "(" : type_name(value) + "([");
    print_items(value.items(), depth);
    add(list ? "]" : !tuple ? "])" : value.items().size() == 1 ? ",)" : ")");
  }

  static std::string range_text(const Sequence& range) {
    if (!range.shown.empty()) return range.shown;
    const auto& items = range.items;
    if (items.empty()) return "range(0, 0)";
    const int64_t first = items.front().integer();
    const int64_t step = items.size() > 1 ? items[1].integer() - first : 1;
    const std::string text =
        "range(" + std::to_string(first) + ", " + std::to_string(items.back().integer() + step);
    return step == 1 ? text + ")" : text + ", " + std::to_string(step) + ")";
  }

  void print_dict(const Dict& dict, int depth) {
    add("{");
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      if (i) add(", ");
      print(dict.entries[i].first, depth + 1);
      add(": ");
      print(dict.entries[i].second, depth + 1);
    }
    add("}");
  }

  void print_namespace(const Namespace& space, int depth) {
    add("<Namespace {");
    for (size_t i = 0; i < space.attributes.size(); ++i) {
      add((i ? ", " : "") + repr_of_text(space.attributes[i].first) + ": ");
      print(space.attributes[i].second, depth + 1);
    }
    add("}>");
  }
};

}  // namespace

std::string repr_of_text(std::string_view text) {
  Printer printer;
  printer.print(Value::text(std::string(text)), 0);
  return printer.out.take().bytes;
}

MarkedText representation(const Value& value) {
  Printer printer;
  printer.print(value, 0);
  return printer.out.take();
}

MarkedText to_text(const Value& value) {
  if (value.is_text()) return value.text();
  if (value.is_undefined()) return {};
  return representation(value);
}

}  // namespace forge::jinja
