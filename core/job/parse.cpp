#include "core/job/parse.h"

#include <algorithm>

#include "core/job/foreign.h"
#include "core/job/scalars.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"
#include "core/lib/base/typo.h"

namespace forge {
namespace {

std::string in_quotes(const std::string& text) { return "\"" + text + "\""; }

bool inside(const Field& field, double value) {
  // The comparisons are written so that NaN is outside.
  bool low = field.above_minimum ? value > field.minimum : value >= field.minimum;
  bool high = field.below_maximum ? value < field.maximum : value <= field.maximum;
  return low && high;
}

// Reads one value of one key and collects its faults.
class ValueReader {
 public:
  ValueReader(const Field& field, std::string key, Diagnostics& faults)
      : field_(field), key_(std::move(key)), faults_(faults) {}

  std::optional<FieldValue> read(const Node& node) {
    switch (field_.kind) {
      case FieldKind::boolean:
        return take(read_boolean(node), node);
      case FieldKind::integer:
        return in_range(read_integer(node), node);
      case FieldKind::bytes:
        return in_range(read_bytes(node), node);
      case FieldKind::number:
        return in_range(read_number(node), node);
      case FieldKind::seconds:
        return in_range(read_seconds(node), node);
      case FieldKind::text:
        return text(node);
      case FieldKind::choice:
        return choice(node);
      case FieldKind::texts:
        return list<std::string>(node, [&](const Node& item) { return text(item); });
      case FieldKind::numbers:
        return list<double>(node, [&](const Node& item) { return in_range(read_number(item), item); });
      case FieldKind::integers:
        return list<int64_t>(node, [&](const Node& item) { return in_range(read_integer(item), item); });
      case FieldKind::integer_map:
        return map<InOrder<int64_t>>(node, [&](const Node& item) { return in_range(read_integer(item), item); });
      case FieldKind::integer_lists:
        return integer_lists(node);
      case FieldKind::number_map:
        return map<InOrder<double>>(node, [&](const Node& item) { return in_range(read_number(item), item); });
      case FieldKind::text_map:
        return map<std::map<std::string, std::string>>(node, [&](const Node& item) { return text(item); });
      case FieldKind::scalar_map:
        return map<std::map<std::string, Scalar>>(node, [&](const Node& item) { return scalar(item); });
      case FieldKind::targets:
        return node.is_list() ? targets(node) : target(node);
      case FieldKind::section:
      case FieldKind::sections:
        break;
    }
    return std::nullopt;
  }

 private:
  std::nullopt_t refuse(const Position& at, std::string message, std::string hint = "") {
    faults_.add(at, key_, std::move(message), std::move(hint));
    return std::nullopt;
  }
  template <class Value>
  std::optional<FieldValue> take(Reading<Value> reading, const Node& node) {
    if (reading.value) return FieldValue(std::move(*reading.value));
    return refuse(node.at, reading.message(), reading.hint.empty() ? elsewhere(node) : reading.hint);
  }
  template <class Value>
  std::optional<FieldValue> in_range(Reading<Value> reading, const Node& node) {
    if (!reading.value) {
      Reading<double> number = read_number(node);
      bool share = number.value && *number.value > 0 && *number.value < 1;
      if (share && !field_.share_key.empty())
        reading.hint =
            "for a share of all steps use " + key_.substr(0, key_.rfind('.') + 1) + field_.share_key;
      if (field_.automatic)
        reading.expected = reading.expected.empty() ? "auto or one" : reading.expected + " or auto";
      return take(std::move(reading), node);
    }
    if (inside(field_, static_cast<double>(*reading.value))) return FieldValue(*reading.value);
    return refuse(node.at, node.scalar + " is out of range, expected " + range_text(field_), elsewhere(node));
  }
  // Returns the advice for another tool's value.
  std::string elsewhere(const Node& node) const {
    return node.is_scalar() ? foreign_value_hint(key_, node.scalar) : "";
  }
  std::optional<FieldValue> text(const Node& node) {
    std::optional<FieldValue> value = take(read_text(node), node);
    if (value && std::get<std::string>(*value).empty()) return refuse(node.at, "the text is empty");
    return value;
  }
  std::optional<FieldValue> choice(const Node& node) {
    std::vector<std::string> words = accepted_words(field_);
    if (field_.automatic) words.push_back("auto");
    if (!node.is_scalar()) return refuse(node.at, describe(node) + ", expected " + alternatives(words));
    const std::string& word = node.scalar;
    bool known = std::find(field_.choices.begin(), field_.choices.end(), word) != field_.choices.end();
    if (known) return FieldValue(word);
    if (std::find(field_.later.begin(), field_.later.end(), word) != field_.later.end())
      return refuse(node.at, in_quotes(word) + " is not in this version, which has " + alternatives(words));
    std::string hint = elsewhere(node);
    if (hint.empty()) {
      const std::string near = likely_meant(word, words);
      if (!near.empty()) hint = "did you mean " + in_quotes(near) + "?";
    }
    return refuse(node.at, describe(quoted_node(node)) + " is not one of " + alternatives(words), hint);
  }
  static Node quoted_node(Node node) {
    node.quoting = Quoting::quoted;
    return node;
  }
  template <class Item, class Read>
  std::optional<FieldValue> list(const Node& node, Read read) {
    if (node.is_map()) return refuse(node.at, describe(node) + ", expected a list");
    // A single value is a list of one, unless a length is required.
    if (node.is_scalar() && field_.length > 0)
      return refuse(node.at, describe(node) + ", expected a list of " + std::to_string(field_.length));
    std::vector<Item> items;
    bool good = true;
    for (const Node& item : node.is_scalar() ? std::vector<Node>{node} : node.items) {
      std::optional<FieldValue> value = read(item);
      if (value)
        items.push_back(std::get<Item>(std::move(*value)));
      else
        good = false;
    }
    if (!good) return std::nullopt;
    int64_t count = static_cast<int64_t>(items.size());
    if (field_.length > 0 && count != field_.length)
      return refuse(node.at,
                    "a list of " + std::to_string(count) + ", expected " + std::to_string(field_.length));
    return FieldValue(std::move(items));
  }
  template <class Map, class Read>
  std::optional<FieldValue> map(const Node& node, Read read) {
    using Item = typename Map::mapped_type;
    if (!node.is_map()) return refuse(node.at, describe(node) + ", expected a map of names to values");
    Map items;
    bool good = true;
    for (const Member& member : node.members) {
      auto value = read(member.value);
      if constexpr (std::is_same_v<Item, Scalar>) {
        if (value) items[member.key] = std::move(*value);
      } else {
        if (value) items[member.key] = std::get<Item>(std::move(*value));
      }
      good = good && value;
    }
    if (!good) return std::nullopt;
    return FieldValue(std::move(items));
  }
  std::optional<FieldValue> integer_lists(const Node& node) {
    const auto integers = [&](const Node& items) {
      return list<int64_t>(items, [&](const Node& item) { return in_range(read_integer(item), item); });
    };
    if (node.is_map()) return map<std::map<std::string, std::vector<int64_t>>>(node, integers);
    std::optional<FieldValue> plain = integers(node);
    if (!plain) return std::nullopt;
    std::map<std::string, std::vector<int64_t>> lists;
    if (auto& ids = std::get<std::vector<int64_t>>(*plain); !ids.empty()) lists[""] = std::move(ids);
    return FieldValue(std::move(lists));
  }
  // Reads a scalar as written: false, 3, 0.5. Anything else and everything in quotes is text.
  std::optional<Scalar> scalar(const Node& node) {
    if (!node.is_scalar()) return refuse(node.at, describe(node) + ", expected a text, a number, true or false");
    if (const auto value = read_boolean(node).value) return Scalar(*value);
    if (const auto value = read_integer(node).value) return Scalar(*value);
    if (const auto value = read_number(node).value) return Scalar(*value);
    return Scalar(node.scalar);
  }
  // Reads all-linear or a regex. Another tool's word for it would be a regex that matches nothing.
  std::optional<FieldValue> target(const Node& node) {
    if (std::string hint = elsewhere(node); !hint.empty())
      return refuse(node.at,
                    describe(quoted_node(node)) + " is neither all-linear nor a regex of module paths", hint);
    return text(node);
  }
  std::optional<FieldValue> targets(const Node& node) {
    std::optional<FieldValue> value = list<std::string>(node, [&](const Node& item) { return text(item); });
    if (!field_.choices.empty() && value && std::get<std::vector<std::string>>(*value).empty())
      return refuse(node.at, "the list is empty", "write adapter: none to train without an adapter");
    return value;
  }

  const Field& field_;
  std::string key_;
  Diagnostics& faults_;
};

void parse_value(const Node& node, const Field& field, void* object, const std::string& key,
                 const ResolvePath& resolve, Parsed& parsed, Diagnostics& faults) {
  if (field.automatic && node.is_scalar() && node.scalar == "auto") {
    field.set(object, {});
    parsed.given[key] = node.at;
    return;
  }
  std::optional<FieldValue> value = ValueReader(field, key, faults).read(node);
  parsed.given[key] = node.at;
  if (!value) return;
  if (auto* path = std::get_if<std::string>(&*value); path && field.path) {
    if (path->find_first_of("\n\r") != std::string::npos)
      faults.add(node.at, key, show_name(*path) + ": a line break in a path, expected none", "write it on one line; rename a file whose name has one");
    if (resolve) *path = resolve(*path, node.at);
  }
  if (*value == FieldValue(false) || *value == FieldValue(int64_t{0}) || *value == FieldValue(0.0)) parsed.off.insert(key);
  field.set(object, std::move(*value));
}

// Sets the type before the keys that only some types have. A faulty one is reported in its turn.
void set_type(const Node& node, const std::vector<Field>& fields, void* object) {
  for (const Field& field : fields) {
    const Node* type = field.picks_type ? node.find(field.key) : nullptr;
    if (type && type->is_scalar() && std::find(field.choices.begin(), field.choices.end(), type->scalar) != field.choices.end())
      field.set(object, type->scalar);
  }
}

void parse_list(const Node& node, const Field& field, void* object, const std::string& key,
                const ResolvePath& resolve, Parsed& parsed, Diagnostics& faults) {
  if (!node.is_list()) {
    faults.add(node.at, key, describe(node) + ", expected a list");
    return;
  }
  parsed.given[key] = node.at;
  field.resize(object, node.items.size());
  for (size_t i = 0; i < node.items.size(); ++i) {
    std::string item_key = key + "[" + std::to_string(i) + "]";
    if (node.items[i].is_map())
      parse_section(node.items[i], field.fields, field.element(object, i), item_key + ".", resolve, parsed,
                    faults);
    else
      faults.add(node.items[i].at, item_key,
                 describe(node.items[i]) + ", expected a " +
                     (field.shorthand == "path" ? "file" : "word") + " or {" + field.shorthand + ", …}");
  }
}

void check_required(const Node& node, const std::vector<Field>& fields, const std::string& prefix,
                    Diagnostics& faults) {
  for (const Field& field : fields) {
    if (!field.required || field.kind == FieldKind::section) continue;
    const Node* value = node.find(field.key);
    if (!value || value->is_null())
      faults.add(node.at, prefix + field.key, "missing", field.doc);
    else if (value->is_list() && value->items.empty())
      faults.add(value->at, prefix + field.key, "the list is empty", field.doc);
  }
}

// Returns, for a value in place of a section, the key it was probably meant for, or all keys of the
// section.
std::string section_hint(const Field& section, const Node& value) {
  for (const Field& field : section.fields)
    if (field.required && !value.is_map()) {
      const std::string shown = value.is_scalar() ? value.scalar : "[…]";
      return "write " + section.key + ": {" + field.key + ": " + shown + "}";
    }
  return "known here: " + join(keys_of(section.fields), ", ");
}

}  // namespace

std::string alternatives(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

void parse_section(const Node& node, const std::vector<Field>& fields, void* object,
                   const std::string& prefix, const ResolvePath& resolve, Parsed& parsed,
                   Diagnostics& faults) {
  set_type(node, fields, object);
  for (const Member& member : node.members) {
    std::string key = prefix + member.key;
    const Field* field = field_of(fields, member.key);
    if (!field) {
      refuse_unknown_key(member, node, prefix, faults);
      continue;
    }
    const Node& value = member.value;
    if (value.is_null()) continue;
    if (value.faulty) {
      parsed.given[key] = value.at;
      continue;
    }
    if (field->kind == FieldKind::sections) {
      parse_list(value, *field, object, key, resolve, parsed, faults);
    } else if (field->kind != FieldKind::section) {
      parse_value(value, *field, object, key, resolve, parsed, faults);
    } else if (value.is_map()) {
      parse_section(value, field->fields, field->member(object), key + ".", resolve, parsed, faults);
    } else {
      faults.add(value.at, key, describe(value) + ", expected keys", section_hint(*field, value));
    }
  }
  if (!parsed.complete) return;
  check_required(node, fields, prefix, faults);
  // For a missing required section, its own required keys are reported as missing, after everything
  // else.
  for (const Field& field : fields) {
    if (field.kind != FieldKind::section || !field.required) continue;
    const Node* value = node.find(field.key);
    if (value && !value->is_null()) continue;
    Node empty = map_node({}, node.at);
    check_required(empty, field.fields, prefix + field.key + ".", faults);
  }
}

std::string value_problem(const Field& field, const std::string& key, const Node& node) {
  if (field.automatic && node.is_scalar() && node.scalar == "auto") return "";
  if (node.is_scalar() && std::find(field.also.begin(), field.also.end(), node.scalar) != field.also.end())
    return "";
  Diagnostics faults;
  ValueReader(field, key, faults).read(node);
  return faults.all().empty() ? "" : faults.all()[0].message;
}

}  // namespace forge
