#pragma once
// Where words go: data to stdout, everything that is said to people to stderr.
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/io/json.h"

namespace forge {

// Writes data to stdout. Throws Error(environment) when it cannot be written (a full disk); a reader that has gone
// (`forge list | head -1`) ends the program quietly.
void print(std::string_view text);
// One line of JSON to stdout.
void print_json(const Json& value);
// One line to stderr.
void say(std::string_view line);
// `message`, then `  hint` when there is one, to stderr. What they quote from files cannot command the terminal.
void say_error(const std::string& message, const std::string& hint);

struct Terminal {
  bool interactive = false;  // stderr is a terminal that can move its cursor
  bool color = false;        // and NO_COLOR is not set
  int width = 80;            // columns
};
Terminal terminal();      // of stderr
bool stdout_has_color();  // stdout is a terminal and NO_COLOR is not set

// The first columns of `text` that fit `width`, never cutting a UTF-8 character. Each code point counts one
// column.
std::string cut_to_width(std::string_view text, int width);

}  // namespace forge
