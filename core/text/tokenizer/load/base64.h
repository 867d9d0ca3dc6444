#pragma once
// Base64 (RFC 4648), as tokenizer files carry bytes.
#include <optional>
#include <string>
#include <string_view>

namespace forge::text {

// Everything from the first '=' on is padding. Nothing for any other character outside the alphabet.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace forge::text
