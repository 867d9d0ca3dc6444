#include "core/lib/base/printable.h"


#include "core/lib/base/format.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

std::string escaped_byte(unsigned byte) { return fmt::format("\\x{:02x}", byte); }

// Returns the code point U+2028 to U+202E or U+2066 to U+2069 that begins at `text`, or 0. In
// UTF-8: e2 80 a8…ae, e2 81 a6…a9.
unsigned turning_point(std::string_view text) {
  if (text.size() < 3 || text[0] != '\xe2') return 0;
  const auto second = static_cast<unsigned char>(text[1]), third = static_cast<unsigned char>(text[2]);
  const bool turns = (second == 0x80 && third >= 0xa8 && third <= 0xae) ||
                     (second == 0x81 && third >= 0xa6 && third <= 0xa9);
  return turns ? 0x2000U | ((second & 0x3fU) << 6) | (third & 0x3fU) : 0;
}

std::string escaped(std::string_view text, bool one_line) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    const bool stays = !one_line && (c == '\n' || c == '\t');
    if (c == 0xC2 && next >= 0x80 && next < 0xA0) {
      out += escaped_byte(next);
      i += 1;
    } else if ((c < 0x20 || c == 0x7F) && !stays) {
      out += escaped_byte(c);
    } else if (const unsigned point = turning_point(text.substr(i))) {
      out += fmt::format("\\u{:04x}", point);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, false); }

std::string one_line(std::string_view text) { return escaped(text, true); }

std::string show_name(std::string_view name) {
  constexpr size_t kLongest = 80;
  size_t length = name.size() <= kLongest ? name.size() : kLongest;
  while (length < name.size() && length > 0 && (static_cast<unsigned char>(name[length]) >> 6) == 2) --length;
  const std::string_view shown = name.substr(0, length);
  std::string text;
  if (valid_utf8(shown)) {
    text = escaped(shown, true);
  } else {
    for (const char character : shown) {
      const auto byte = static_cast<unsigned char>(character);
      text += byte < 0x80 ? escaped({&character, 1}, true) : escaped_byte(byte);
    }
  }
  return "\"" + text + (length < name.size() ? "…\"" : "\"");
}

}  // namespace forge
