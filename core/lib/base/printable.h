#pragma once
// Makes foreign text safe to show on a terminal, in a message or on a page: it must not move the
// cursor, end a line or reverse the reading direction.
//
//   say(printable(text));                       // whole texts: newline and tab stay
//   "tensor " + show_name(name) + " is missing"  // names: quoted, on one line, cut where they are long
#include <string>
#include <string_view>

namespace forge {

// Escapes C0, DEL and C1 control characters (U+0080 to U+009F) other than newline and tab as \xNN,
// and characters that set the direction (U+202A to U+202E, U+2066 to U+2069) and line separators
// (U+2028, U+2029) as \uNNNN.
std::string printable(std::string_view text);
// Like printable(), for one line: newline and tab are escaped too.
std::string one_line(std::string_view text);

// Returns a name from a file in quotes: at most 80 bytes, all control characters and bad UTF-8
// escaped.
std::string show_name(std::string_view name);

}  // namespace forge
