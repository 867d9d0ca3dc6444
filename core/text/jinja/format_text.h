#pragma once
// Python's two ways of formatting.
#include "core/text/jinja/interpreter.h"

namespace forge::jinja {

// 'format % arguments' of Python.
MarkedText percent_format(Interpreter& interpreter, const MarkedText& format, const Value& arguments);
// 'format'.format(…) of Python.
MarkedText brace_format(Interpreter& interpreter, const MarkedText& format, const Arguments& arguments);

}  // namespace forge::jinja
