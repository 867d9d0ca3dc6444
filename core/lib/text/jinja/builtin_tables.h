#pragma once
// The tables that find_filter and the other find functions search, one per file.
#include <span>

#include "core/lib/text/jinja/builtins.h"

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

// Returns the item that "a.b.0" names inside `item`, or `otherwise` if a step is missing
// (filters_sequence.cpp).
Value attribute_path(const Value& item, const Value& attribute, const Value* otherwise);

}  // namespace forge::jinja
