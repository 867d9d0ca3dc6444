#include "core/lib/text/jinja/value.h"

#include <algorithm>

namespace forge::jinja {

void fault(const std::string& message) { throw RenderFault{message}; }

void undefined_fault(const Value& value) { fault(value.undefined().message); }

namespace {

int checked_depth(int inner) {
  if (inner >= kMaxDepth) fault("values nested more than " + std::to_string(kMaxDepth) + " deep");
  return inner + 1;
}

int64_t checked_weight(int64_t weight) {
  if (weight > kMaxWeight) fault("a value of more than " + std::to_string(kMaxWeight) + " parts");
  return weight;
}

std::shared_ptr<const Sequence> sequence_of(std::vector<Value> items) {
  auto sequence = std::make_shared<Sequence>();
  sequence->items = std::move(items);
  return sequence;
}

std::vector<Value> characters(const MarkedText& text) {
  std::vector<Value> items;
  for (int64_t offset = 0; offset < text.size();) {
    const int64_t begin = offset;
    next_code_point(text.bytes, offset);
    items.push_back(Value(text.slice(begin, offset)));
  }
  return items;
}

}  // namespace

int64_t weight_of(const Value& value) {
  if (value.is_text()) return 1 + value.text().size() / 16;
  if (value.is_sequence()) return value.sequence().weight;
  if (value.is_dict()) return value.dict().weight;
  return 1;
}

int depth_of(const Value& value) {
  if (value.is_sequence()) return value.sequence().depth;
  if (value.is_dict()) return value.dict().depth;
  return 0;
}

Value Value::undefined(std::string message) {
  return Value(std::make_shared<const Undefined>(Undefined{std::move(message)}));
}

Value Value::list(std::vector<Value> items, SequenceKind kind, bool from_data) {
  auto sequence = std::make_shared<Sequence>();
  int inner = 0;
  for (const Value& item : items) {
    inner = std::max(inner, depth_of(item));
    sequence->weight = checked_weight(sequence->weight + weight_of(item));
  }
  sequence->kind = kind;
  sequence->depth = checked_depth(inner);
  sequence->items = std::move(items);
  sequence->from_data = from_data;
  return Value(std::move(sequence));
}

const void* Value::identity() const {
  return std::visit(
      [](const auto& content) -> const void* {
        using Type = std::decay_t<decltype(content)>;
        if constexpr (std::is_same_v<Type, None> || std::is_arithmetic_v<Type>)
          return nullptr;
        else
          return content.get();
      },
      data_);
}

const Value* Dict::find(std::string_view key) const {
  if (!index_.empty()) {
    const auto found = index_.find(key);
    return found == index_.end() ? nullptr : &entries[found->second].second;
  }
  for (const auto& [name, value] : entries)
    if (name.is_text() && name.bytes() == key) return &value;
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (key.is_text()) return find(std::string_view(key.bytes()));
  if (key.is_dict() || key.is_sequence(SequenceKind::list))
    fault("unhashable type: '" + type_name(key) + "'");
  for (const auto& [name, value] : entries)
    if (!name.is_text() && equal(name, key)) return &value;
  return nullptr;
}

void Dict::set(Value key, Value value) {
  depth = std::max(depth, checked_depth(std::max(depth_of(key), depth_of(value))));
  weight = checked_weight(weight + weight_of(key) + weight_of(value));
  if (const Value* old = find(key)) {
    *const_cast<Value*>(old) = std::move(value);
    return;
  }
  entries.emplace_back(std::move(key), std::move(value));
  if (entries.size() < 16) return;
  for (size_t i = index_.empty() ? 0 : entries.size() - 1; i < entries.size(); ++i)
    if (entries[i].first.is_text()) index_.emplace(entries[i].first.bytes(), i);
}

const Value* find_named(const NamedValues& values, std::string_view name) {
  for (const auto& [key, value] : values)
    if (key == name) return &value;
  return nullptr;
}

void Namespace::set(std::string_view name, Value value) {
  if (const Value* old = find_named(attributes, name))
    *const_cast<Value*>(old) = std::move(value);
  else
    attributes.emplace_back(name, std::move(value));
}

bool truth(const Value& value) {
  if (value.is_none() || value.is_undefined()) return false;
  if (value.is_bool()) return value.boolean();
  if (value.is_int()) return value.integer() != 0;
  if (value.is_float()) return value.number() != 0;
  if (value.is_text()) return !value.bytes().empty();
  if (value.is_generator()) return true;
  if (value.is_sequence()) return !value.items().empty();
  if (value.is_dict()) return !value.dict().entries.empty();
  if (value.is_loop()) return !value.loop().items->items.empty();
  return true;
}

std::string type_name(const Value& value) {
  static constexpr const char* kTypes[] = {  // in the order of Value's alternatives
      "NoneType", "bool", "int",       "float",    "str",        "Undefined",
      "",         "dict", "Namespace", "function", "LoopContext"};
  if (value.is_callable() && value.callable().macro) return "Macro";
  if (!value.is_sequence()) return kTypes[value.alternative()];
  static constexpr const char* kKinds[] = {  // in the order of SequenceKind
      "list", "tuple", "range", "generator", "dict_keys", "dict_values", "dict_items"};
  return kKinds[static_cast<size_t>(value.sequence().kind)];
}

std::string object_name(const Value& value) {
  if (value.is_none()) return "'None'";
  if (value.is_namespace()) return "'jinja2.utils.Namespace object'";
  if (value.is_loop()) return "'jinja2.runtime.LoopContext object'";
  return "'" + type_name(value) + " object'";
}

int64_t length_of(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) return count_characters(value.bytes());
  if (value.is_sequence() && !value.is_generator()) return static_cast<int64_t>(value.items().size());
  if (value.is_dict()) return static_cast<int64_t>(value.dict().entries.size());
  if (value.is_loop()) return static_cast<int64_t>(value.loop().items->items.size());
  fault("object of type '" + type_name(value) + "' has no len()");
}

std::shared_ptr<const Sequence> iterate(const Value& value) {
  if (value.is_undefined()) return sequence_of({});
  if (value.is_text()) return sequence_of(characters(value.text()));
  if (value.is_dict()) {
    std::vector<Value> keys;
    for (const auto& [key, item] : value.dict().entries) keys.push_back(key);
    return sequence_of(std::move(keys));
  }
  if (value.is_generator()) {
    if (value.sequence().consumed) return sequence_of({});
    value.sequence().consumed = true;
    return sequence_of(value.items());
  }
  if (value.is_sequence()) return value.shared_sequence();
  fault("'" + type_name(value) + "' object is not iterable");
}

}  // namespace forge::jinja
