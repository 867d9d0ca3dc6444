#pragma once
// Mathematical LaTeX without its layout: sizes of brackets, spaces, units, delimiters.
#include <string>
#include <string_view>

namespace forge {

struct MathText {
  std::string text;      // the rest, in ASCII where there is an ASCII or LaTeX spelling
  bool percent = false;  // a percent sign stood at the end
  bool words = false;    // \text{…} and nothing else
};

// True for 0 to 9.
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Marks the end of a row (\\\\) in `text`.
constexpr const char* kRowEnd = "\x01";

// Removes the layout from `latex`, which must be valid UTF-8.
MathText plain_math(std::string_view latex);

}  // namespace forge
