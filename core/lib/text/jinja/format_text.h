#pragma once
// Python's two kinds of text formatting.
#include "core/lib/text/jinja/interpreter.h"

namespace forge::jinja {

// Returns Python's 'format % arguments'.
MarkedText percent_format(Interpreter& interpreter, const MarkedText& format, const Value& arguments);
// Returns Python's 'format'.format(…).
MarkedText brace_format(Interpreter& interpreter, const MarkedText& format, const Arguments& arguments);

}  // namespace forge::jinja
