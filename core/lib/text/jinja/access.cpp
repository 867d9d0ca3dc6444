// object.name, object[key] and slices, in jinja2's order of lookup.
#include <algorithm>
#include <optional>

#include "core/lib/text/jinja/builtins.h"

namespace forge::jinja {
namespace {

Value missing(const Value& object, const std::string& name) {
  return Value::undefined(object_name(object) + " has no attribute '" + name + "'");
}

Value unsafe(const Value& object, const std::string& name) {
  return Value::undefined("access to attribute '" + name + "' of '" + type_name(object) +
                          "' object is unsafe.");
}

Value loop_method(const Value& object, const std::string& name) {
  LoopState* state = &object.loop();
  const auto call = [object, state, cycle = name == "cycle"](Interpreter&,
                                                             const Arguments& arguments) -> Value {
    const auto& values = arguments.positional;
    if (cycle) {
      if (values.empty()) fault("no items for cycling given");
      return values[static_cast<size_t>(state->index0) % values.size()];
    }
    const bool same = state->changed_before && state->last_changed.size() == values.size() &&
                      std::equal(values.begin(), values.end(), state->last_changed.begin(), equal);
    state->changed_before = true;
    state->last_changed = values;
    return Value(!same);
  };
  return Value(std::make_shared<const Callable>(Callable{name, call}));
}

Value loop_attribute(const Value& object, const std::string& name) {
  const LoopState& loop = object.loop();
  const auto& items = loop.items->items;
  const auto count = static_cast<int64_t>(items.size());
  if (name == "index") return Value(loop.index0 + 1);
  if (name == "index0") return Value(loop.index0);
  if (name == "first") return Value(loop.index0 == 0);
  if (name == "last") return Value(loop.index0 + 1 == count);
  if (name == "length") return Value(count);
  if (name == "revindex") return Value(count - loop.index0);
  if (name == "revindex0") return Value(count - loop.index0 - 1);
  if (name == "depth") return Value(int64_t{loop.depth0 + 1});
  if (name == "depth0") return Value(int64_t{loop.depth0});
  if (name == "previtem")
    return loop.index0 > 0 ? items[loop.index0 - 1] : Value::undefined("there is no previous item");
  if (name == "nextitem")
    return loop.index0 + 1 < count ? items[loop.index0 + 1] : Value::undefined("there is no next item");
  if (name == "cycle" || name == "changed") return loop_method(object, name);
  return missing(object, name);
}

std::optional<Value> found_value(const Value* found) {
  return found ? std::optional(*found) : std::nullopt;
}

// Returns what Python's getattr would find.
std::optional<Value> python_attribute(const Value& object, const std::string& name) {
  if (const Builtin* method = find_method(object, name)) return bound_method(object, *method);
  if (is_forbidden_method(object, name)) return unsafe(object, name);
  if (object.is_namespace()) return found_value(find_named(object.name_space().attributes, name));
  if (object.is_loop()) {
    Value result = loop_attribute(object, name);
    if (!result.is_undefined() || name == "previtem" || name == "nextitem") return result;
  }
  if (object.is_callable() && object.callable().macro && name == "name")
    return Value::text(object.callable().name);
  if (object.is_sequence()) {
    const auto& names = object.sequence().field_names;
    const auto found = std::find(names.begin(), names.end(), name);
    if (found != names.end()) return object.items()[found - names.begin()];
  }
  return std::nullopt;
}

// Returns what object[key] would find in Python; nothing for LookupError and TypeError.
std::optional<Value> python_item(const Value& object, const Value& key) {
  if (object.is_dict()) {
    const bool hashable = !key.is_dict() && !key.is_sequence(SequenceKind::list);
    return hashable ? found_value(object.dict().find(key)) : std::nullopt;
  }
  if (!key.is_integral() || !(object.is_text() || object.is_indexed())) return std::nullopt;
  const int64_t count = length_of(object);
  const int64_t index = key.integer() + (key.integer() < 0 ? count : 0);
  if (index < 0 || index >= count) return std::nullopt;
  if (!object.is_text()) return object.items()[index];
  const int64_t begin = byte_offset(object.bytes(), index);
  int64_t end = begin;
  next_code_point(object.bytes(), end);
  return Value(object.text().slice(begin, end));
}

struct Range {
  int64_t start, stop, step;

  std::vector<int64_t> indices() const {
    std::vector<int64_t> all;
    for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
      all.push_back(i);
      if (__builtin_add_overflow(i, step, &i)) break;
    }
    return all;
  }
};

int64_t slice_number(const Value& value, int64_t otherwise) {
  if (value.is_none()) return otherwise;
  if (value.is_undefined()) undefined_fault(value);
  if (!value.is_integral()) fault("slice indices must be integers or None or have an __index__ method");
  return value.integer();
}

// Resolves the bounds of a slice as PySlice_AdjustIndices does.
Range resolved(const Value& start, const Value& stop, const Value& step, int64_t count) {
  Range range{0, 0, slice_number(step, 1)};
  if (range.step == 0) fault("slice step cannot be zero");
  range.step = std::max(range.step, -INT64_MAX);
  const bool back = range.step < 0;
  const auto clamp = [&](int64_t index) {
    if (index < 0) index = index < -count ? -1 : index + count;
    if (index < 0) return back ? int64_t{-1} : int64_t{0};
    return index >= count ? (back ? count - 1 : count) : index;
  };
  range.start = start.is_none() ? (back ? count - 1 : 0) : clamp(slice_number(start, 0));
  range.stop = stop.is_none() ? (back ? -1 : count) : clamp(slice_number(stop, 0));
  return range;
}

MarkedText slice_text(const MarkedText& text, const Range& range) {
  if (range.step == 1)
    return text.slice(byte_offset(text.bytes, range.start),
                      byte_offset(text.bytes, std::max(range.start, range.stop)));
  std::vector<int64_t> begins;
  for (int64_t offset = 0; offset < text.size();) {
    begins.push_back(offset);
    next_code_point(text.bytes, offset);
  }
  begins.push_back(text.size());
  TextBuilder out;
  for (const int64_t i : range.indices()) out.add(text, begins[i], begins[i + 1]);
  return out.take();
}

}  // namespace

Value get_attribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) undefined_fault(object);
  if (auto found = python_attribute(object, name)) return *found;
  if (auto found = python_item(object, Value::text(name))) return *found;
  return starts_with(name, "__") ? unsafe(object, name) : missing(object, name);
}

Value get_item(const Value& object, const Value& key) {
  if (object.is_undefined()) undefined_fault(object);
  if (auto found = python_item(object, key)) return *found;
  if (key.is_text())
    return python_attribute(object, key.bytes()).value_or(missing(object, key.bytes()));
  return Value::undefined(object_name(object) + " has no element " + representation(key).bytes);
}

Value slice(Interpreter& interpreter, const Value& object, const Value& start, const Value& stop,
            const Value& step) {
  if (object.is_undefined()) undefined_fault(object);
  if (object.is_text()) {
    interpreter.spend(object.text().size() / 8);
    return Value(
        slice_text(object.text(), resolved(start, stop, step, count_characters(object.bytes()))));
  }
  if (!object.is_indexed()) fault("'" + type_name(object) + "' object cannot be sliced");
  const auto& items = object.items();
  const auto count = static_cast<int64_t>(items.size());
  std::vector<Value> out;
  for (const int64_t i : resolved(start, stop, step, count).indices()) out.push_back(items[i]);
  interpreter.spend(static_cast<int64_t>(out.size()));
  return Value::list(std::move(out), object.sequence().kind, object.sequence().from_data);
}

}  // namespace forge::jinja
