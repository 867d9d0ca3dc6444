// Formats 'x is %s' % y and 'x is {}'.format(y). The conversions that templates use are supported;
// the others are refused by name.
#include "core/lib/base/format.h"
#include "core/lib/text/jinja/text_operations.h"

#include <algorithm>
#include <cmath>

#include "core/lib/text/jinja/builtins.h"

namespace forge::jinja {
namespace {

struct Spec {
  std::string fill = " ";
  char align = 0;  // < > ^
  bool plus = false, blank = false, alternate = false, comma = false;
  int64_t width = 0, precision = -1;
  char type = 0;
};

constexpr int64_t kMaxWidth = 10'000;

std::string with_commas(const std::string& digits) {
  std::string out;
  const size_t whole = std::min(digits.find_first_of(".e"), digits.size());
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && i < whole && (whole - i) % 3 == 0 && digits[i - 1] != '-') out += ',';
    out += digits[i];
  }
  return out;
}

std::string formatted_number(const Value& value, const Spec& spec) {
  const char type = spec.type ? spec.type : value.is_float() ? 'g' : 'd';
  char format[8];
  std::string buffer(512 + std::max<int64_t>(spec.precision, 0), '\0');
  int length = 0;
  if (std::string_view("dixXo").find(type) != std::string_view::npos) {
    if (value.is_float() && type != 'd' && type != 'i')
      fault(std::string("%") + type + " format: an integer is required, not float");
    const int64_t number = value.is_float()
                               ? static_cast<int64_t>(std::clamp(value.number(), -9.2e18, 9.2e18))
                               : value.integer();
    const bool negative = number < 0;
    snprintf(format, sizeof format, "%%l%c", type == 'd' || type == 'i' ? 'u' : type);
    const uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    length = snprintf(buffer.data(), buffer.size(), format, magnitude);
    buffer.resize(length);
    if (negative) buffer.insert(0, "-");
  } else if (!spec.type && value.is_float() && spec.precision < 0) {
    buffer = float_text(value.number());
  } else if (std::string_view("fFeEgG%").find(type) != std::string_view::npos) {
    snprintf(format, sizeof format, "%%.*%c", type == '%' ? 'f' : type);
    const double number = value.number() * (type == '%' ? 100 : 1);
    length = snprintf(buffer.data(), buffer.size(), format,
                      static_cast<int>(spec.precision < 0 ? 6 : spec.precision), number);
    buffer.resize(std::min<size_t>(length, buffer.size()));
    if (type == '%') buffer += '%';
  } else {
    fault(std::string("unsupported format character '") + type + "'");
  }
  if (spec.comma) buffer = with_commas(buffer);
  if (spec.plus && buffer[0] != '-') buffer.insert(0, "+");
  if (spec.blank && !spec.plus && buffer[0] != '-') buffer.insert(0, " ");
  return buffer;
}

void add_padded(TextBuilder& out, const MarkedText& text, const Spec& spec, char default_align,
                bool zero_after_sign) {
  const int64_t margin = std::max<int64_t>(spec.width - count_characters(text.bytes), 0);
  const char align = spec.align ? spec.align : default_align;
  const int64_t left = align == '>' ? margin : align == '^' ? margin / 2 : 0;
  const bool sign = zero_after_sign && text.size() > 0 && (text.bytes[0] == '-' || text.bytes[0] == '+');
  if (sign) out.add(text, 0, 1);
  for (int64_t i = 0; i < left; ++i) out.add(spec.fill, kFromTemplate);
  out.add(text, sign, text.size());
  for (int64_t i = left; i < margin; ++i) out.add(spec.fill, kFromTemplate);
}

int64_t digits(const std::string& text, int64_t& at) {
  int64_t value = 0;
  while (at < static_cast<int64_t>(text.size()) && text[at] >= '0' && text[at] <= '9') {
    value = value * 10 + (text[at++] - '0');
    if (value > kMaxWidth) fault("a width or precision of more than " + std::to_string(kMaxWidth));
  }
  return value;
}

class PercentFormat {
 public:
  PercentFormat(Interpreter& interpreter, const MarkedText& format, const Value& arguments)
      : interpreter_(interpreter), format_(format), arguments_(arguments) {}

  MarkedText run() {
    const auto size = format_.size();
    for (int64_t i = 0; i < size;) {
      const size_t found = format_.bytes.find('%', static_cast<size_t>(i));
      const int64_t stop = found == std::string::npos ? size : static_cast<int64_t>(found);
      out_.add(format_, i, stop);
      if (stop >= size) break;
      i = conversion(stop + 1);
    }
    if (arguments_.is_sequence(SequenceKind::tuple) ? used_ < arguments_.items().size()
                                                    : !arguments_.is_dict() && used_ == 0)
      fault("not all arguments converted during string formatting");
    return out_.take();
  }

 private:
  Value next() {
    if (!arguments_.is_sequence(SequenceKind::tuple)) {
      if (used_++ > 0) fault("not enough arguments for format string");
      return arguments_;
    }
    if (used_ >= arguments_.items().size()) fault("not enough arguments for format string");
    return arguments_.items()[used_++];
  }

  int64_t conversion(int64_t i) {
    const std::string& text = format_.bytes;
    const auto at = [&](int64_t index) { return index < format_.size() ? text[index] : '\0'; };
    Value value;
    bool has_value = false;
    if (at(i) == '(') {
      const size_t end = text.find(')', i);
      if (end == std::string::npos) fault("incomplete format key");
      if (!arguments_.is_dict()) fault("format requires a mapping");
      const std::string key = text.substr(i + 1, end - i - 1);
      const Value* found = arguments_.dict().find(key);
      if (!found) fault("KeyError: '" + key + "'");
      value = *found, has_value = true;
      i = static_cast<int64_t>(end) + 1;
    }
    Spec spec;
    bool zero = false;
    for (; std::string_view("-+ 0#").find(at(i)) != std::string_view::npos && at(i); ++i) {
      if (at(i) == '-') spec.align = '<';
      if (at(i) == '+') spec.plus = true;
      if (at(i) == ' ') spec.blank = true;
      if (at(i) == '0') zero = true;
    }
    spec.width = digits(text, i);
    if (at(i) == '.') spec.precision = digits(text, ++i);
    spec.type = at(i++);
    if (spec.type == '%') {
      out_.add("%", kFromTemplate);
      return i;
    }
    if (!spec.type) fault("incomplete format");
    if (!has_value) value = next();
    convert(value, spec, zero);
    return i;
  }

  void convert(const Value& value, Spec& spec, bool zero) {
    if (spec.type == 's' || spec.type == 'r') {
      MarkedText text = printed(interpreter_, value);
      if (spec.type == 'r') text = representation(value);
      if (spec.precision >= 0) text = text.slice(0, byte_offset(text.bytes, spec.precision));
      interpreter_.spend_text(text.size() + spec.width);
      return add_padded(out_, text, spec, '>', false);
    }
    if (spec.type == 'c' && value.is_text() && count_characters(value.bytes()) == 1)
      return add_padded(out_, value.text(), spec, '>', false);
    if (value.is_undefined()) undefined_fault(value);
    if (!value.is_number())
      fault(fmt::format("%{} format: a real number is required, not {}", spec.type, type_name(value)));
    if (zero && spec.align != '<') spec.fill = "0";
    interpreter_.spend_text(spec.width + std::max<int64_t>(spec.precision, 0));
    add_padded(out_, {formatted_number(value, spec), kFromTemplate}, spec, '>', zero);
  }

  Interpreter& interpreter_;
  const MarkedText& format_;
  const Value& arguments_;
  size_t used_ = 0;
  TextBuilder out_;
};

// [[fill]align][sign][0][width][,][.precision][type]
Spec parsed_spec(const std::string& text, bool& zero) {
  Spec spec;
  int64_t i = 0, first = 0;
  const auto is_align = [&](int64_t at) {
    return at < static_cast<int64_t>(text.size()) &&
           std::string_view("<>^").find(text[at]) != std::string_view::npos;
  };
  if (!text.empty()) next_code_point(text, first);
  if (!text.empty() && is_align(first)) {
    spec.fill = text.substr(0, first), spec.align = text[first], i = first + 1;
  } else if (is_align(0)) {
    spec.align = text[0], i = 1;
  }
  const auto at = [&] { return i < static_cast<int64_t>(text.size()) ? text[i] : '\0'; };
  if (at() == '+' || at() == '-' || at() == ' ') spec.plus = at() == '+', spec.blank = at() == ' ', ++i;
  if (at() == '0' && !spec.align) zero = true, spec.fill = "0", ++i;
  spec.width = digits(text, i);
  if (at() == ',') spec.comma = true, ++i;
  if (at() == '.') spec.precision = digits(text, ++i);
  if (at()) spec.type = text[i++];
  if (i != static_cast<int64_t>(text.size())) fault("Invalid format specifier '" + text + "'");
  return spec;
}

class BraceFormat {
 public:
  BraceFormat(Interpreter& interpreter, const Arguments& arguments)
      : interpreter_(interpreter), arguments_(arguments) {}

  MarkedText run(const MarkedText& format) {
    const std::string& text = format.bytes;
    int64_t begin = 0;
    for (int64_t i = 0; i < format.size();) {
      const char c = text[i];
      if (c != '{' && c != '}') {
        ++i;
        continue;
      }
      out_.add(format, begin, i);
      if (i + 1 < format.size() && text[i + 1] == c) {
        out_.add(format, i, i + 1);
        begin = i += 2;
        continue;
      }
      if (c == '}') fault("Single '}' encountered in format string");
      const size_t end = text.find('}', i);
      if (end == std::string::npos) fault("expected '}' before end of string");
      field(text.substr(i + 1, end - i - 1));
      begin = i = static_cast<int64_t>(end) + 1;
    }
    out_.add(format, begin, format.size());
    return out_.take();
  }

 private:
  Value positional(size_t index) const {
    if (index >= arguments_.positional.size())
      fault("Replacement index " + std::to_string(index) + " out of range for positional args tuple");
    return arguments_.positional[index];
  }

  Value looked_up(const std::string& path) {
    const size_t end = std::min(path.find_first_of(".["), path.size());
    const std::string name = path.substr(0, end);
    Value value;
    if (name.empty()) {
      value = positional(next_++);
    } else if (name.find_first_not_of("0123456789") == std::string::npos && name.size() < 6) {
      value = positional(std::stoul(name));
    } else {
      const Value* found = find_named(arguments_.named, name);
      if (!found) fault("KeyError: '" + name + "'");
      value = *found;
    }
    if (end == path.size()) return value;
    fault("attributes and items inside a format field are not supported");
  }

  void field(const std::string& text) {
    if (text.find('{') != std::string::npos) fault("nested format fields are not supported");
    const size_t colon = std::min(text.find(':'), text.size());
    const size_t mark = std::min(text.find('!'), colon);
    Value value = looked_up(text.substr(0, mark));
    if (mark != colon) {
      const std::string conversion = text.substr(mark + 1, colon - mark - 1);
      if (conversion != "r" && conversion != "s") fault("unknown conversion '" + conversion + "'");
      value = Value(conversion == "r" ? representation(value) : printed(interpreter_, value));
    }
    bool zero = false;
    const Spec spec = colon < text.size() ? parsed_spec(text.substr(colon + 1), zero) : Spec{};
    interpreter_.spend_text(spec.width + std::max<int64_t>(spec.precision, 0) + 16);
    const bool plain = spec.type == 0 && !spec.plus && !spec.blank && !spec.comma && spec.precision < 0;
    if (value.is_number() && !value.is_bool() && !plain)
      return add_padded(out_, {formatted_number(value, spec), kFromTemplate}, spec, '>', zero);
    if (spec.type && spec.type != 's')
      fault(std::string("Unknown format code '") + spec.type + "' for object of type '" + type_name(value) +
            "'");
    MarkedText shown = printed(interpreter_, value);
    if (spec.precision >= 0) shown = shown.slice(0, byte_offset(shown.bytes, spec.precision));
    add_padded(out_, shown, spec, value.is_number() ? '>' : '<', zero && value.is_number());
  }

  Interpreter& interpreter_;
  const Arguments& arguments_;
  size_t next_ = 0;
  TextBuilder out_;
};

}  // namespace

MarkedText percent_format(Interpreter& interpreter, const MarkedText& format, const Value& arguments) {
  interpreter.spend_text(format.size());
  return PercentFormat(interpreter, format, arguments).run();
}

MarkedText brace_format(Interpreter& interpreter, const MarkedText& format, const Arguments& arguments) {
  interpreter.spend_text(format.size());
  return BraceFormat(interpreter, arguments).run(format);
}

}  // namespace forge::jinja
