// Methods of dict, list and tuple that do not change the value.
#include "core/lib/text/jinja/builtins.h"

namespace forge::jinja {
namespace {

Value dict_get(Interpreter&, const Value& self, const Bound& arguments) {
  const Value* found = self.dict().find(*arguments[0]);
  return found ? *found : arguments.value(1);
}

Value dict_keys(Interpreter& interpreter, const Value& self, const Bound&) {
  return Value::list(walk(interpreter, self).sequence->items, SequenceKind::dict_keys);
}

Value dict_values(Interpreter& interpreter, const Value& self, const Bound&) {
  interpreter.spend(static_cast<int64_t>(self.dict().entries.size()));
  std::vector<Value> values;
  for (const auto& [key, value] : self.dict().entries) values.push_back(value);
  return Value::list(std::move(values), SequenceKind::dict_values);
}

Value dict_items(Interpreter& interpreter, const Value& self, const Bound&) {
  return Value::list(pairs_of(interpreter, self.dict()), SequenceKind::dict_items);
}

Value itself(Interpreter&, const Value& self, const Bound&) { return self; }

Value list_index(Interpreter& interpreter, const Value& self, const Bound& arguments) {
  interpreter.spend(weight_of(self) / 4);
  const auto& items = self.items();
  const auto count = static_cast<int64_t>(items.size());
  const auto clamped = [&](int64_t index) {
    return index < 0 ? std::max<int64_t>(index + count, 0) : std::min(index, count);
  };
  const int64_t stop = clamped(arguments.integer(2, count));
  for (int64_t i = clamped(arguments.integer(1, 0)); i < stop; ++i)
    if (equal(items[i], *arguments[0])) return Value(i);
  fault(representation(*arguments[0]).bytes + " is not in " + type_name(self));
}

Value list_count(Interpreter& interpreter, const Value& self, const Bound& arguments) {
  interpreter.spend(weight_of(self) / 4);
  int64_t count = 0;
  for (const Value& item : self.items()) count += equal(item, *arguments[0]);
  return Value(count);
}

constexpr Builtin kDict[] = {
    {"get", "key default", 1, dict_get}, {"items", "", 0, dict_items}, {"keys", "", 0, dict_keys},
    {"values", "", 0, dict_values},      {"copy", "", 0, itself},
};
constexpr Builtin kList[] = {
    {"index", "value start stop", 1, list_index},
    {"count", "value", 1, list_count},
    {"copy", "", 0, itself},
};

}  // namespace

std::span<const Builtin> dict_methods() { return kDict; }
std::span<const Builtin> list_methods() { return kList; }

}  // namespace forge::jinja
