// Filters that make text.
#include <algorithm>

#include "core/lib/base/format.h"
#include "core/lib/text/jinja/builtins.h"
#include "core/lib/text/jinja/text_operations.h"

namespace forge::jinja {
namespace {

// The rule is jinja2's own, not str.title: a word begins after whitespace, '-' and opening
// brackets.
Value filter_title(Interpreter& interpreter, const Value& self, const Bound&) {
  const MarkedText text = printed(interpreter, self);
  TextBuilder out;
  bool begins = true;
  int64_t word = 0;
  const auto flush = [&](int64_t end) {
    if (word >= end) return;
    int64_t first = word;
    next_code_point(text.bytes, first);
    out.add(upper(text.slice(word, first)));
    out.add(lower(text.slice(first, end)));
  };
  for (int64_t offset = 0; offset < text.size();) {
    const int64_t begin = offset;
    const uint32_t c = next_code_point(text.bytes, offset);
    const bool separator = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (separator != begins) {
      flush(begin);
      word = begin;
    }
    begins = separator;
    if (begin == 0) word = 0;
  }
  flush(text.size());
  return Value(out.take());
}

Value filter_trim(Interpreter& interpreter, const Value& self, const Bound& arguments) {
  const MarkedText text = printed(interpreter, self);
  const std::string* set = arguments.given(0) ? &arguments.text(0).bytes : nullptr;
  interpreter.spend(set ? static_cast<int64_t>(set->size()) : 0);
  return Value(stripped(text, set, true, true));
}

Value filter_replace(Interpreter& interpreter, const Value& self, const Bound& arguments) {
  return Value(replaced(interpreter, printed(interpreter, self),
                        printed(interpreter, *arguments[0]), printed(interpreter, *arguments[1]),
                        arguments.given(2) ? arguments.integer(2, -1) : -1));
}

Value filter_join(Interpreter& interpreter, const Value& self, const Bound& arguments) {
  const MarkedText separator = arguments.has(0) ? printed(interpreter, *arguments[0]) : MarkedText();
  std::vector<MarkedText> parts;
  for (const Value& item : walk(interpreter, self))
    parts.push_back(
        printed(interpreter, arguments.given(1) ? get_item(item, *arguments[1]) : item));
  return Value(joined(interpreter, separator, parts));
}

Value filter_indent(Interpreter& interpreter, const Value& self, const Bound& arguments) {
  if (self.is_undefined()) undefined_fault(self);
  if (!self.is_text()) fault("indent takes a str, not " + type_name(self));
  MarkedText indentation;
  if (arguments.has(0) && arguments[0]->is_text()) {
    indentation = arguments[0]->text();
  } else {
    const int64_t width = std::max<int64_t>(arguments.integer(0, 4), 0);
    if (width > 10'000) fault("indent of " + std::to_string(width) + " blanks");
    indentation = MarkedText(std::string(width, ' '), kFromTemplate);
  }
  TextBuilder with_newline;
  with_newline.add(printed(interpreter, self));
  with_newline.add("\n", kFromTemplate);
  const MarkedText text = with_newline.take();
  const auto lines = split_lines(text, false);
  interpreter.spend_text(text.size() + indentation.size() * static_cast<int64_t>(lines.size()));
  TextBuilder out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i) out.add("\n", kFromTemplate);
    if (i == 0 ? arguments.flag(1, false) : arguments.flag(2, false) || lines[i].size() > 0)
      out.add(indentation);
    out.add(lines[i]);
  }
  return Value(out.take());
}

Value filter_wordcount(Interpreter& interpreter, const Value& self, const Bound&) {
  const MarkedText text = printed(interpreter, self);
  int64_t count = 0;
  bool inside = false;
  for (int64_t offset = 0; offset < text.size();) {
    const uint32_t c = next_code_point(text.bytes, offset);
    const bool word = c == '_' || is_alpha(c) || is_digit(c);
    count += word && !inside;
    inside = word;
  }
  return Value(count);
}

Value filter_truncate(Interpreter& interpreter, const Value& self, const Bound& arguments) {
  const int64_t length = arguments.integer(0, 255);
  const MarkedText end =
      arguments.has(2) ? printed(interpreter, *arguments[2]) : MarkedText("...", kFromTemplate);
  const int64_t end_length = count_characters(end.bytes);
  const int64_t leeway = arguments.given(3) ? arguments.integer(3, 5) : 5;
  if (length < end_length)
    fault("expected length >= " + std::to_string(end_length) + ", got " + std::to_string(length));
  if (leeway < 0) fault("expected leeway >= 0, got " + std::to_string(leeway));
  if (length_of(self) - leeway <= length) return self;
  if (!self.is_text()) fault("truncate takes a str, not " + type_name(self));
  const MarkedText& text = self.text();
  MarkedText kept = text.slice(0, byte_offset(text.bytes, length - end_length));
  if (!arguments.flag(1, false))
    if (const size_t blank = kept.bytes.rfind(' '); blank != std::string::npos)
      kept = kept.slice(0, static_cast<int64_t>(blank));
  TextBuilder out;
  out.add(kept);
  out.add(end);
  return Value(out.take());
}

Value filter_escape(Interpreter& interpreter, const Value& self, const Bound&) {
  const MarkedText text = printed(interpreter, self);
  interpreter.spend(text.size());
  return Value(html_escaped(text));
}

Value filter_forceescape(Interpreter& interpreter, const Value& self, const Bound& arguments) {
  MarkedText text = printed(interpreter, self);
  text.safe = false;
  return filter_escape(interpreter, Value(std::move(text)), arguments);
}

Value filter_safe(Interpreter& interpreter, const Value& self, const Bound&) {
  MarkedText text = printed(interpreter, self);
  text.safe = true;
  return Value(std::move(text));
}

Value filter_urlencode(Interpreter& interpreter, const Value& self, const Bound&) {
  if (self.is_sequence() || self.is_dict()) fault("urlencode takes a str here, not " + type_name(self));
  const MarkedText text = printed(interpreter, self);
  interpreter.spend(text.size());
  TextBuilder out;
  for (int64_t i = 0; i < text.size(); ++i) {
    const char c = text.bytes[i];
    const bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
                       std::string_view("_.-~/").find(c) != std::string_view::npos;
    plain ? out.add(text, i, i + 1)
          : out.add(fmt::format("%{:02X}", static_cast<unsigned char>(c)), text.mark_at(i));
  }
  return Value(out.take());
}

Value filter_format(Interpreter& interpreter, const Value& self, const Bound& arguments) {
  const Arguments& raw = arguments.raw;
  if (!raw.named.empty() && !raw.positional.empty())
    fault("can't handle positional and keyword arguments at the same time");
  Value values = Value::list(raw.positional, SequenceKind::tuple);
  if (!raw.named.empty()) {
    auto dict = std::make_shared<Dict>();
    for (const auto& [name, value] : raw.named) dict->set(Value::text(name), value);
    values = Value(std::move(dict));
  }
  return Value(percent_format(interpreter, printed(interpreter, self), values));
}

Value filter_tojson(Interpreter& interpreter, const Value& self, const Bound& arguments) {
  JsonStyle style;
  style.ensure_ascii = arguments.flag(0, false);
  if (arguments.given(1)) {
    style.indented = true;
    style.item_separator = ",";
    if (arguments[1]->is_text())
      style.indent = arguments[1]->bytes();
    else
      style.indent = std::string(std::clamp<int64_t>(arguments.integer(1, 0), 0, 100), ' ');
  }
  if (arguments.given(2)) {
    const auto separators = iterate(*arguments[2]);
    if (separators->items.size() != 2 || !separators->items[0].is_text() || !separators->items[1].is_text())
      fault("tojson's separators must be a pair of str");
    style.item_separator = separators->items[0].bytes();
    style.key_separator = separators->items[1].bytes();
  }
  style.sort_keys = arguments.flag(3, false);
  const int64_t per_item =
      1 + static_cast<int64_t>(style.item_separator.size() + style.key_separator.size()) / 16 +
      static_cast<int64_t>(style.indent.size()) * depth_of(self) / 16;
  interpreter.spend(2 * weight_of(self) * per_item);
  return Value(json_text(self, style));
}

constexpr Builtin kTextFilters[] = {
    {"tojson", "ensure_ascii indent separators sort_keys", 0, filter_tojson},
    {"trim", "chars", 0, filter_trim},
    {"replace", "old new count", 2, filter_replace},
    {"join", "d attribute", 0, filter_join},
    {"upper", "", 0, [](I& i, const V& s, const B&) { return V(upper(printed(i, s))); }},
    {"lower", "", 0, [](I& i, const V& s, const B&) { return V(lower(printed(i, s))); }},
    {"string", "", 0, [](I& i, const V& s, const B&) { return V(printed(i, s)); }},
    {"safe", "", 0, filter_safe},
    {"title", "", 0, filter_title},
    {"capitalize", "", 0, [](I& i, const V& s, const B&) { return V(capitalized(printed(i, s))); }},
    {"indent", "width first blank", 0, filter_indent},
    {"wordcount", "", 0, filter_wordcount},
    {"truncate", "length killwords end leeway", 0, filter_truncate},
    {"center", "width", 0,
     [](I& i, const V& s, const B& b) {
       return V(padded(i, printed(i, s), b.integer(0, 80), {" ", kFromTemplate}, Padding::around));
     }},
    {"escape", "", 0, filter_escape},
    {"e", "", 0, filter_escape},
    {"forceescape", "", 0, filter_forceescape},
    {"urlencode", "", 0, filter_urlencode},
    {"format", "*", 0, filter_format},
};

}  // namespace

std::span<const Builtin> text_filters() { return kTextFilters; }

}  // namespace forge::jinja
