// object.name, object[key] and slices, in jinja2's order of lookup.
#include <algorithm>

#include "core/lib/text/jinja/builtins.h"

namespace forge::jinja {
namespace {

Value missing(const Value& object, const std::string& name) {
  return Value::undefined(object_name(object) + " has no attribute '" + name + "'");
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

// Finds what Python's getattr would find. Returns false if there is nothing.
bool python_attribute(const Value& object, const std::string& name, Value& result) {
  if (const Builtin* method = find_method(object, name)) return result = bound_method(object, *method), true;
  if (is_forbidden_method(object, name))
    return result = Value::undefined("access to attribute '" + name + "' of '" + type_name(object) +
                                     "' object is unsafe."),
           true;
  if (object.is_namespace()) {
    const Value* found = find_named(object.name_space().attributes, name);
    return found ? (result = *found, true) : false;
  }
  if (object.is_loop())
    return result = loop_attribute(object, name),
           !result.is_undefined() || name == "previtem" || name == "nextitem";
  if (object.is_callable() && object.callable().macro && name == "name")
    return result = Value::text(object.callable().name), true;
  if (object.is_sequence()) {
    const auto& names = object.sequence().field_names;
    const auto found = std::find(names.begin(), names.end(), name);
    if (found != names.end()) return result = object.items()[found - names.begin()], true;
  }
  return false;
}

// Finds what object[key] would find in Python. Returns false for LookupError and TypeError.
bool python_item(const Value& object, const Value& key, Value& result) {
  if (object.is_dict()) {
    if (key.is_dict() || key.is_sequence(SequenceKind::list)) return false;
    const Value* found = object.dict().find(key);
    return found ? (result = *found, true) : false;
  }
  if (!key.is_integral()) return false;
  int64_t index = key.integer();
  if (object.is_text()) {
    const MarkedText& text = object.text();
    const int64_t count = count_characters(text.bytes);
    if (index < 0) index += count;
    if (index < 0 || index >= count) return false;
    const int64_t begin = byte_offset(text.bytes, index);
    int64_t end = begin;
    next_code_point(text.bytes, end);
    return result = Value(text.slice(begin, end)), true;
  }
  if (!object.is_indexed()) return false;
  const auto count = static_cast<int64_t>(object.items().size());
  if (index < 0) index += count;
  if (index < 0 || index >= count) return false;
  return result = object.items()[index], true;
}

}  // namespace

Value get_attribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) undefined_fault(object);
  Value result;
  if (python_attribute(object, name, result)) return result;
  if (python_item(object, Value::text(name), result)) return result;
  if (name.size() > 1 && name[0] == '_' && name[1] == '_')
    return Value::undefined("access to attribute '" + name + "' of '" + type_name(object) +
                            "' object is unsafe.");
  return missing(object, name);
}

Value get_item(const Value& object, const Value& key) {
  if (object.is_undefined()) undefined_fault(object);
  Value result;
  if (python_item(object, key, result)) return result;
  if (key.is_text() && python_attribute(object, key.bytes(), result)) return result;
  if (key.is_text()) return missing(object, key.bytes());
  return Value::undefined(object_name(object) + " has no element " + representation(key).bytes);
}

namespace {

struct Range {
  int64_t start, stop, step;
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
  const int64_t count = static_cast<int64_t>(begins.size()) - 1;
  for (int64_t i = range.start; range.step > 0 ? i < range.stop : i > range.stop;) {
    out.add(text, begins[i], begins[i + 1]);
    if (range.step > count || range.step < -count) break;
    i += range.step;
  }
  return out.take();
}

}  // namespace

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
  const Range range = resolved(start, stop, step, count);
  std::vector<Value> out;
  for (int64_t i = range.start; range.step > 0 ? i < range.stop : i > range.stop;) {
    out.push_back(items[i]);
    if (range.step > count || range.step < -count) break;
    i += range.step;
  }
  interpreter.spend(static_cast<int64_t>(out.size()));
  return Value::list(std::move(out), object.sequence().kind, object.sequence().from_data);
}

}  // namespace forge::jinja
