// Converts between JSON documents and values, and implements json.dumps as transformers' tojson
// calls it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/lib/base/format.h"
#include "core/lib/text/jinja/value.h"

namespace forge::jinja {
namespace {

Value integer_of_json(const Json& json) {
  if (json.is_number_unsigned() &&
      json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    fault("the integer " + json.dump() + " does not fit 64 bits, expected it as a text in quotes");
  return Value(json.get<int64_t>());
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  void write(const Value& value, int depth, Mark around) {
    if (value.is_none()) return out.add("null", around);
    if (value.is_bool()) return out.add(value.boolean() ? "true" : "false", around);
    if (value.is_int()) return out.add(std::to_string(value.integer()), around);
    if (value.is_float()) return out.add(number(value.number()), around);
    if (value.is_text()) return write_text(value.text(), around);
    if (value.is_dict()) return write_dict(value.dict(), depth);
    if (value.is_array()) return write_list(value.sequence(), depth);
    fault("Object of type " + type_name(value) + " is not JSON serializable");
  }
  TextBuilder out;

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return float_text(value);
  }

  std::string escaped(uint32_t c) const {
    static constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf";
    const size_t known = c < 0x80 ? kEscaped.find(static_cast<char>(c)) : std::string_view::npos;
    if (known != std::string_view::npos) return {'\\', kLetters[known]};
    if (c >= 0x20 && (c < 0x80 || !style_.ensure_ascii)) return utf8_of(c);
    if (c < 0x10000) return fmt::format("\\u{:04x}", c);
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((c - 0x10000) >> 10),
                       0xDC00 + ((c - 0x10000) & 0x3FF));
  }

  void write_text(const MarkedText& text, Mark around) {
    const Mark quote = text.bytes.empty() ? around : text.mark_at(0);
    out.add("\"", quote);
    out.add(mapped(text, [this](uint32_t c) { return escaped(c); }));
    out.add("\"", quote);
  }

  void new_line(int depth, Mark mark) {
    if (!style_.indented) return;
    out.add("\n", mark);
    for (int i = 0; i < depth; ++i) out.add(style_.indent, mark);
  }

  void write_list(const Sequence& list, int depth) {
    const Mark mark = list.from_data ? kFromData : kFromTemplate;
    if (list.items.empty()) return out.add("[]", mark);
    out.add("[", mark);
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i) out.add(style_.item_separator, mark);
      new_line(depth + 1, mark);
      write(list.items[i], depth + 1, mark);
    }
    new_line(depth, mark);
    out.add("]", mark);
  }

  static MarkedText key_text(const Value& key, Mark mark) {
    if (key.is_text()) return key.text();
    if (key.is_none()) return {"null", mark};
    if (key.is_bool()) return {key.boolean() ? "true" : "false", mark};
    if (key.is_int()) return {std::to_string(key.integer()), mark};
    if (key.is_float()) return {number(key.number()), mark};
    fault("keys must be str, int, float, bool or None, not " + type_name(key));
  }

  void write_dict(const Dict& dict, int depth) {
    const Mark mark = dict.from_data ? kFromData : kFromTemplate;
    if (dict.entries.empty()) return out.add("{}", mark);
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys)
      std::stable_sort(entries.begin(), entries.end(), [](const auto* left, const auto* right) {
        return compare(left->first, right->first) < 0;
      });
    out.add("{", mark);
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i) out.add(style_.item_separator, mark);
      new_line(depth + 1, mark);
      write_text(key_text(entries[i]->first, mark), mark);
      out.add(style_.key_separator, mark);
      write(entries[i]->second, depth + 1, mark);
    }
    new_line(depth, mark);
    out.add("}", mark);
  }

  const JsonStyle& style_;
};

}  // namespace

Value value_of_json(const Json& json) {
  if (json.is_null()) return {};
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_number_float()) return Value(json.get<double>());
  if (json.is_number()) return integer_of_json(json);
  if (json.is_string()) return Value::text(json.get_ref<const std::string&>(), kFromData);
  if (json.is_array()) {
    std::vector<Value> items;
    items.reserve(json.size());
    for (const Json& item : json) items.push_back(value_of_json(item));
    return Value::list(std::move(items), SequenceKind::list, true);
  }
  auto dict = std::make_shared<Dict>();
  dict->from_data = true;
  for (const auto& [key, item] : json.items()) dict->set(Value::text(key, kFromData), value_of_json(item));
  return Value(std::move(dict));
}

MarkedText json_text(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.write(value, 0, kFromTemplate);
  return writer.out.take();
}

}  // namespace forge::jinja
