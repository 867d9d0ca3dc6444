#pragma once
// Operations on text that filters, methods and operators share. All keep the marks.
#include <string>
#include <vector>

#include "core/lib/text/jinja/interpreter.h"

namespace forge::jinja {

MarkedText upper(const MarkedText& text);
MarkedText lower(const MarkedText& text);
MarkedText capitalized(const MarkedText& text);
// Returns the text without the characters of `set` (whitespace if null) at its begin and end.
MarkedText stripped(const MarkedText& text, const std::string* set, bool left, bool right);
MarkedText replaced(Interpreter& interpreter, const MarkedText& text, const MarkedText& from,
                    const MarkedText& to, int64_t count);
MarkedText joined(Interpreter& interpreter, const MarkedText& separator,
                  const std::vector<MarkedText>& parts);
std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends);
enum class Padding { before, behind, around };

// Returns the text filled up to `width` characters.
MarkedText padded(Interpreter& interpreter, const MarkedText& text, int64_t width,
                  const MarkedText& fill, Padding where);
// Returns the text with the five characters of HTML as entities, unless it is safe already. The
// result is safe.
MarkedText html_escaped(const MarkedText& text);

// Returns Python's 'format % arguments'.
MarkedText percent_format(Interpreter& interpreter, const MarkedText& format, const Value& arguments);

// Returns Python's 'format'.format(…).
MarkedText brace_format(Interpreter& interpreter, const MarkedText& format, const Arguments& arguments);

}  // namespace forge::jinja
