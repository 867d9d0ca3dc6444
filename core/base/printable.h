#pragma once
// Text of others as it may stand on a terminal, in a message or on a page: it must not move the cursor, end a line or
// turn the reading direction around.
//
//   say(printable(text));                       // whole texts: newline and tab stay
//   "tensor " + show_name(name) + " is missing"  // names: quoted, on one line, cut where they are long
#include <string>
#include <string_view>

namespace forge {

// C0, DEL and C1 control characters (U+0080 to U+009F) other than newline and tab as \xNN; what sets the direction
// (U+202A to U+202E, U+2066 to U+2069) and line separators (U+2028, U+2029) as \uNNNN.
std::string printable(std::string_view text);
// The same on one line: newline and tab are escapes too.
std::string one_line(std::string_view text);

// A name from a file: in quotes, at most 80 bytes, all control characters and bad UTF-8 as escapes.
std::string show_name(std::string_view name);

}  // namespace forge
