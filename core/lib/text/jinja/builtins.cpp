#include "core/lib/text/jinja/builtins.h"

#include <algorithm>
#include <array>

#include "core/lib/base/text.h"

namespace forge::jinja {

int64_t Bound::integer(size_t index, int64_t otherwise) const {
  if (!values[index]) return otherwise;
  if (values[index]->is_undefined()) undefined_fault(*values[index]);
  if (!values[index]->is_integral())
    fault("'" + type_name(*values[index]) + "' object cannot be interpreted as an integer");
  return values[index]->integer();
}

const MarkedText& Bound::text(size_t index) const {
  if (values[index]->is_undefined()) undefined_fault(*values[index]);
  if (!values[index]->is_text())
    fault("argument " + std::to_string(index + 1) + " must be str, not " + type_name(*values[index]));
  return values[index]->text();
}

Value call_builtin(const Builtin& builtin, Interpreter& interpreter, const Value& self,
                   const Arguments& arguments) {
  Bound bound{{}, arguments};
  if (builtin.parameters == "*") return builtin.apply(interpreter, self, bound);
  const std::string name(builtin.name);
  const std::vector<std::string> parameters =
      builtin.parameters.empty() ? std::vector<std::string>{} : split(builtin.parameters, ' ');
  bound.values.assign(parameters.size(), nullptr);
  if (arguments.positional.size() > parameters.size())
    fault(name + "() takes at most " + std::to_string(parameters.size()) + " arguments (" +
          std::to_string(arguments.positional.size()) + " given)");
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound.values[i] = &arguments.positional[i];
  for (const auto& [key, value] : arguments.named) {
    const auto found = std::find(parameters.begin(), parameters.end(), key);
    if (found == parameters.end()) fault(name + "() got an unexpected keyword argument '" + key + "'");
    if (bound.values[found - parameters.begin()])
      fault(name + "() got multiple values for argument '" + key + "'");
    bound.values[found - parameters.begin()] = &value;
  }
  for (int i = 0; i < builtin.required; ++i)
    if (!bound.values[i]) fault(name + "() missing required argument '" + parameters[i] + "'");
  return builtin.apply(interpreter, self, bound);
}

namespace {

const Builtin* find_in(std::span<const Builtin> table, std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Builtin& row) { return row.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace

const Builtin* find_filter(std::string_view name) {
  for (const auto table : {text_filters(), sequence_filters(), selection_filters(), number_filters()})
    if (const Builtin* found = find_in(table, name)) return found;
  return nullptr;
}

const Builtin* find_test(std::string_view name) { return find_in(tests(), name); }
const Builtin* find_global(std::string_view name) { return find_in(globals(), name); }

const Builtin* find_method(const Value& object, std::string_view name) {
  if (object.is_text()) return find_in(text_methods(), name);
  if (object.is_dict()) return find_in(dict_methods(), name);
  if (!object.is_array() || (name == "copy" && object.is_sequence(SequenceKind::tuple)))
    return nullptr;
  return find_in(list_methods(), name);
}

bool is_forbidden_method(const Value& object, std::string_view name) {
  static constexpr std::array<std::string_view, 8> kList{"append", "clear", "pop",    "reverse",
                                                         "insert", "sort",  "extend", "remove"};
  static constexpr std::array<std::string_view, 5> kDict{"clear", "pop", "popitem", "setdefault", "update"};
  if (object.is_sequence(SequenceKind::list))
    return std::find(kList.begin(), kList.end(), name) != kList.end();
  return object.is_dict() && std::find(kDict.begin(), kDict.end(), name) != kDict.end();
}

Value bound_method(const Value& object, const Builtin& builtin) {
  const auto call = [object, &builtin](Interpreter& interpreter, const Arguments& arguments) {
    return call_builtin(builtin, interpreter, object, arguments);
  };
  return Value(std::make_shared<const Callable>(Callable{std::string(builtin.name), call}));
}

MarkedText printed(Interpreter& interpreter, const Value& value) {
  interpreter.spend(weight_of(value));
  return to_text(value);
}

Items walk(Interpreter& interpreter, const Value& value) {
  interpreter.spend(value.is_text() ? value.text().size() : weight_of(value) / 8);
  return {iterate(value)};
}

std::vector<Value> pairs_of(Interpreter& interpreter, const Dict& dict) {
  interpreter.spend(static_cast<int64_t>(dict.entries.size()));
  std::vector<Value> pairs;
  for (const auto& [key, value] : dict.entries)
    pairs.push_back(Value::list({key, value}, SequenceKind::tuple));
  return pairs;
}

Value list_of(std::vector<Value> items) { return Value::list(std::move(items)); }
Value generator_of(std::vector<Value> items) {
  return Value::list(std::move(items), SequenceKind::generator);
}

}  // namespace forge::jinja
