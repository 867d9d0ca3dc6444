// map, select, reject and their attribute forms: filters that take the name of another filter or of
// a test.
#include "core/lib/text/jinja/builtins.h"

namespace forge::jinja {
namespace {

std::string name_argument(const Arguments& arguments, size_t index) {
  const Value& name = arguments.positional[index];
  if (!name.is_text()) fault("the name of a filter or test must be str, not " + type_name(name));
  return name.bytes();
}

Arguments without_first(const Arguments& arguments, size_t count) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                         arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

Value filter_map(Interpreter& interpreter, const Value& self, const Bound& bound) {
  const Arguments& arguments = bound.raw;
  std::vector<Value> items;
  if (!truth(self)) return generator_of({});  // before any argument is looked at, as in jinja2
  if (const Value* attribute = find_named(arguments.named, "attribute");
      attribute && arguments.positional.empty()) {
    for (const auto& [key, value] : arguments.named)
      if (key != "attribute" && key != "default") fault("Unexpected keyword argument '" + key + "'");
    const Value* otherwise = find_named(arguments.named, "default");
    if (otherwise && otherwise->is_none()) otherwise = nullptr;
    for (const Value& item : walk(interpreter, self)) {
      interpreter.spend(1);
      items.push_back(attribute_path(item, *attribute, otherwise));
    }
    return generator_of(std::move(items));
  }
  if (arguments.positional.empty()) fault("map requires a filter argument");
  const std::string filter = name_argument(arguments, 0);
  const Arguments rest = without_first(arguments, 1);
  for (const Value& item : walk(interpreter, self))
    items.push_back(interpreter.apply_filter(filter, item, rest));
  return generator_of(std::move(items));
}

// Selects items. The first `skip` arguments name an attribute, the next a test; without a test,
// truth decides.
Value selected(Interpreter& interpreter, const Value& self, const Arguments& arguments, size_t skip,
               bool wanted) {
  if (!truth(self)) return generator_of({});
  if (arguments.positional.size() < skip) fault("Missing parameter for attribute name");
  const bool tests = arguments.positional.size() > skip;
  const std::string test = tests ? name_argument(arguments, skip) : "";
  const Arguments rest = tests ? without_first(arguments, skip + 1) : Arguments{};
  std::vector<Value> items;
  for (const Value& item : walk(interpreter, self)) {
    interpreter.spend(1);
    const Value value = skip ? attribute_path(item, arguments.positional[0], nullptr) : item;
    if ((tests ? interpreter.apply_test(test, value, rest) : truth(value)) == wanted) items.push_back(item);
  }
  return generator_of(std::move(items));
}

constexpr Builtin kSelectionFilters[] = {
    {"map", "*", 0, filter_map},
    {"select", "*", 0, [](I& i, const V& s, const B& b) { return selected(i, s, b.raw, 0, true); }},
    {"reject", "*", 0,
     [](I& i, const V& s, const B& b) { return selected(i, s, b.raw, 0, false); }},
    {"selectattr", "*", 0,
     [](I& i, const V& s, const B& b) { return selected(i, s, b.raw, 1, true); }},
    {"rejectattr", "*", 0,
     [](I& i, const V& s, const B& b) { return selected(i, s, b.raw, 1, false); }},
};

}  // namespace

std::span<const Builtin> selection_filters() { return kSelectionFilters; }

}  // namespace forge::jinja
