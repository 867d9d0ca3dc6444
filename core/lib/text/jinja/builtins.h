#pragma once
// The functions of the language as tables: filters, tests, globals, and the methods of str, dict
// and list.
#include <span>
#include <string_view>

#include "core/lib/text/jinja/interpreter.h"

namespace forge::jinja {

// Arguments assigned to a function's parameters: null if the caller gave none.
struct Bound {
  std::vector<const Value*> values;
  const Arguments& raw;
  const Value* operator[](size_t index) const { return values[index]; }
  bool has(size_t index) const { return values[index] != nullptr; }
  bool given(size_t index) const { return has(index) && !values[index]->is_none(); }
  // Returns the argument, or the default.
  Value value(size_t index, Value otherwise = {}) const { return values[index] ? *values[index] : otherwise; }
  bool flag(size_t index, bool otherwise) const { return values[index] ? truth(*values[index]) : otherwise; }
  int64_t integer(size_t index, int64_t otherwise) const;  // faults when the argument is not an int
  const MarkedText& text(size_t index) const;              // faults when the argument is not a str
};

struct Builtin {
  std::string_view name;
  std::string_view parameters;  // names, one blank apart; "*" alone: any arguments, read from Bound::raw
  int required = 0;
  Value (*apply)(Interpreter&, const Value& self, const Bound&) = nullptr;
};

// Short names for the rows of the tables.
using I = Interpreter;
using V = Value;
using B = Bound;

// Assigns the arguments to the parameters and calls the function. Faults as Python does on a
// missing, unknown or surplus argument.
Value call_builtin(const Builtin& builtin, Interpreter& interpreter, const Value& self,
                   const Arguments& arguments);

// Return the entry of that name; null if there is none.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_global(std::string_view name);
// Returns a method of the value's type. Methods that would change a list or dict are not among
// them.
const Builtin* find_method(const Value& object, std::string_view name);
bool is_forbidden_method(const Value& object, std::string_view name);
Value bound_method(const Value& object, const Builtin& builtin);

// The tables that the find functions search, one per file.
std::span<const Builtin> text_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> selection_filters();
std::span<const Builtin> tests();
std::span<const Builtin> globals();
std::span<const Builtin> text_methods();
std::span<const Builtin> dict_methods();
std::span<const Builtin> list_methods();

// --- shared by several tables ---
// Returns the item that "a.b.0" names inside `item`, or `otherwise` if a step is missing
// (filters_sequence.cpp).
Value attribute_path(const Value& item, const Value& attribute, const Value* otherwise);

// Returns str(value). Its work is counted as steps.
MarkedText printed(Interpreter& interpreter, const Value& value);
// Returns iterate(value), for a range-based `for`, which must keep the sequence alive. Its work is
// counted as steps.
struct Items {
  std::shared_ptr<const Sequence> sequence;
  auto begin() const { return sequence->items.begin(); }
  auto end() const { return sequence->items.end(); }
};
Items walk(Interpreter& interpreter, const Value& value);
// Returns the entries as tuples (key, value).
std::vector<Value> pairs_of(Interpreter& interpreter, const Dict& dict);
Value list_of(std::vector<Value> items);
Value generator_of(std::vector<Value> items);

}  // namespace forge::jinja
