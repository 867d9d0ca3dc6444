#pragma once
// Output: data go to stdout, everything for people goes to stderr.
#include <string>
#include <string_view>

#include "core/lib/io/json.h"

namespace forge {

// The reader of stdout has exited (`forge list | head -1`). Ends a command quietly, with the code
// that a shell shows for a program killed by SIGPIPE, since output was cut off.
struct ReaderGone {};
constexpr int kReaderGoneCode = 141;

// Writes data to stdout. Throws ReaderGone, or Error(environment) when it cannot be written (a full
// disk).
void print(std::string_view text);
// Writes text that a model or others wrote: raw into a pipe or file; on a terminal its control
// characters are escaped.
void print_text(std::string_view text);
// Returns false if nothing is read from stdout within a second.
bool stdout_is_read();
// Writes one line of JSON to stdout.
void print_json(const Json& value);
// Writes the value like print_json() if `json`, else the text like print().
void print_either(bool json, const Json& value, std::string_view text);
// Writes one line to stderr. Control characters quoted from files are escaped.
void say(std::string_view line);

struct Terminal {
  bool interactive = false;  // stderr is a terminal that can move its cursor
  int width = 80;            // columns
};
Terminal terminal();      // of stderr
bool stdout_has_color();  // stdout is a terminal and NO_COLOR is not set

// Returns the first columns of `text` that fit `width`, never cutting a UTF-8 character. Each code
// point counts one column.
std::string cut_to_width(std::string_view text, int width);

}  // namespace forge
