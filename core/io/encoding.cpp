#include "core/io/encoding.h"

#include <algorithm>
#include <cctype>

#include "core/base/text.h"

namespace forge {
namespace {

// The bytes from 0x80 to 0x9F that prose has; from 0xA0 on Windows-1252 is Latin-1, which is Unicode's first page.
std::string windows_1252(unsigned char byte) {
  switch (byte) {
    case 0x80:
      return "€";
    case 0x85:
      return "…";
    case 0x91:
      return "‘";
    case 0x92:
      return "’";
    case 0x93:
      return "“";
    case 0x94:
      return "”";
    case 0x96:
      return "–";
    case 0x97:
      return "—";
    default:
      break;
  }
  if (byte < 0xA0 || byte > 0xFD) return "";
  return {static_cast<char>(0xC0 | byte >> 6), static_cast<char>(0x80 | (byte & 0x3F))};
}

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

}  // namespace

std::string utf8_problem(std::string_view text, size_t bad) {
  const std::string problem = "not valid UTF-8";
  const std::string character = windows_1252(static_cast<unsigned char>(text[bad]));
  // Multi-byte characters before it show that the text is damaged UTF-8.
  const bool alone = std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bad), is_ascii) &&
                     (bad + 1 == text.size() || is_ascii(text[bad + 1]));
  const bool in_word = bad > 0 && std::isalpha(static_cast<unsigned char>(text[bad - 1]));
  const bool before_word = bad + 1 < text.size() && std::isalpha(static_cast<unsigned char>(text[bad + 1]));
  if (character.empty() || !alone || (!in_word && !before_word)) return problem;
  return problem + ": the byte is " + character +
         " in Latin-1 (Windows-1252); if the file is, convert it: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW";
}

}  // namespace forge
