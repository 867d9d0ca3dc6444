#pragma once
// The tables behind find_filter and its kin, one per file, and helpers that several of them use.
#include <span>

#include "core/text/jinja/builtins.h"

namespace forge::jinja {

std::span<const Builtin> text_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> selection_filters();
std::span<const Builtin> tests();
std::span<const Builtin> globals();
std::span<const Builtin> text_methods();
std::span<const Builtin> dict_methods();
std::span<const Builtin> list_methods();

// str(value), paid for.
MarkedText printed(Interpreter& interpreter, const Value& value);
std::shared_ptr<const Sequence> iterated(Interpreter& interpreter, const Value& value);
// The same for a range-based `for`, which must keep the sequence alive.
struct Items {
  std::shared_ptr<const Sequence> sequence;
  auto begin() const { return sequence->items.begin(); }
  auto end() const { return sequence->items.end(); }
};
Items walk(Interpreter& interpreter, const Value& value);
Value list_of(std::vector<Value> items);
Value generator_of(std::vector<Value> items);

// The item that "a.b.0" names inside `item`, or `otherwise` where a step is missing (filters_sequence.cpp).
Value attribute_path(const Value& item, const Value& attribute, const Value* otherwise);

// Text operations that filters and methods share (text_operations.cpp). All keep the marks.
using CaseMapping = std::string (*)(uint32_t);
MarkedText mapped(const MarkedText& text, CaseMapping mapping);
MarkedText upper(const MarkedText& text);
MarkedText lower(const MarkedText& text);
MarkedText capitalized(const MarkedText& text);
// Without the characters of `set` (whitespace when null) at the begin and end.
MarkedText stripped(const MarkedText& text, const std::string* set, bool left, bool right);
MarkedText replaced(Interpreter& interpreter, const MarkedText& text, const MarkedText& from,
                    const MarkedText& to, int64_t count);
MarkedText joined(Interpreter& interpreter, const MarkedText& separator,
                  const std::vector<MarkedText>& parts);
std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends);
MarkedText centered(Interpreter& interpreter, const MarkedText& text, int64_t width, const MarkedText& fill);
MarkedText brace_format(Interpreter& interpreter, const MarkedText& format, const Arguments& arguments);

}  // namespace forge::jinja
