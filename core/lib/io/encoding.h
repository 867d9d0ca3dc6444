#pragma once
// Describes text that is not UTF-8.
#include <cstddef>
#include <string>
#include <string_view>

namespace forge {

// Returns "not valid UTF-8". If the byte at `bad` and the text around it look like Windows-1252 or
// Latin-1, adds what the byte is there and how to convert the file.
std::string utf8_problem(std::string_view text, size_t bad);

}  // namespace forge
