#pragma once
// LaTeX without what only sets it: sizes of brackets, spaces, units, delimiters.
#include <string>
#include <string_view>

namespace forge {

struct MathText {
  std::string text;      // what is left, in ASCII where there is an ASCII or LaTeX spelling
  bool percent = false;  // a percent sign stood at the end
  bool words = false;    // \text{…} and nothing else
};

// What stands for the end of a row (\\\\) in `text`.
constexpr const char* kRowEnd = "\x01";

// `latex` must be valid UTF-8.
MathText plain_math(std::string_view latex);

}  // namespace forge
