#include "core/io/faults.h"

#include "core/base/text.h"

namespace forge {

std::string show_name(std::string_view name) {
  constexpr size_t kLongest = 80;
  size_t length = name.size() <= kLongest ? name.size() : kLongest;
  while (length < name.size() && length > 0 && (static_cast<unsigned char>(name[length]) >> 6) == 2) --length;
  bool valid = valid_utf8(name.substr(0, length));
  std::string text = "\"";
  for (char character : name.substr(0, length)) {
    auto byte = static_cast<unsigned char>(character);
    constexpr char kDigits[] = "0123456789abcdef";
    if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !valid)) {
      text += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      text += character;
    }
  }
  return text + (length < name.size() ? "…\"" : "\"");
}

}  // namespace forge
