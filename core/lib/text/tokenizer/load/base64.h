#pragma once
// Decodes Base64 (RFC 4648), the form of bytes in tokenizer files.
#include <optional>
#include <string>
#include <string_view>

namespace forge::text {

// Returns the bytes. Everything from the first '=' on is padding. Returns nothing for any other
// character outside the alphabet.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace forge::text
