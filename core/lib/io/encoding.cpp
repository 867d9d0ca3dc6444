#include "core/lib/io/encoding.h"

#include <cctype>

#include "core/lib/base/text.h"

namespace forge {
namespace {

// Returns the character of a byte in Windows-1252, which from 0xA0 on is Latin-1, Unicode's first
// page. Empty for bytes that prose does not have.
std::string windows_1252(unsigned char byte) {
  static constexpr const char* kFromEighty[] = {"€", "",  "‚", "ƒ", "„", "…", "†", "‡", "ˆ", "‰", "Š",
                                                "‹", "Œ", "",  "Ž", "",  "",  "‘", "’", "“", "”", "•",
                                                "–", "—", "˜", "™", "š", "›", "œ", "",  "ž", "Ÿ"};
  if (byte >= 0x80 && byte < 0xA0) return kFromEighty[byte - 0x80];
  if (byte < 0xA0 || byte > 0xFD) return "";
  return {static_cast<char>(0xC0 | byte >> 6), static_cast<char>(0x80 | (byte & 0x3F))};
}

// True for ASCII except control characters.
bool is_text(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x80 && (byte >= 0x20 || c == '\t' || c == '\n' || c == '\r');
}

bool is_letter(std::string_view text, size_t at) {
  return at < text.size() && std::isalpha(static_cast<unsigned char>(text[at]));
}

// True for prose of a Western language: each byte above ASCII is a character of Windows-1252, few
// are, one is a part of a word or a mark of punctuation, and nowhere do they make a character of
// UTF-8, which would show that the text is damaged UTF-8.
bool looks_western(std::string_view text) {
  size_t high = 0, words = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (is_text(text[i])) continue;
    if (byte < 0x80 || windows_1252(byte).empty()) return false;
    for (size_t length = 2; length <= 4; ++length)
      if (i + length <= text.size() && !is_text(text[i + 1]) && valid_utf8(text.substr(i, length))) return false;
    ++high;
    words += byte < 0xA0 || is_letter(text, i + 1) || (i > 0 && is_letter(text, i - 1));
  }
  return words > 0 && 3 * high <= text.size();
}

}  // namespace

std::string utf8_problem(std::string_view text, size_t bad) {
  const std::string problem = "not valid UTF-8";
  if (!looks_western(text)) return problem;
  return problem + ": the byte is " + windows_1252(static_cast<unsigned char>(text[bad])) +
         " in Latin-1 (Windows-1252); if the file is, convert it: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW";
}

}  // namespace forge
