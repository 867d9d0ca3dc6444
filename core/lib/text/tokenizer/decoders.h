#pragma once
// Decoders turn the strings of tokens back into text.
#include <functional>
#include <string>
#include <vector>

#include "core/lib/io/json.h"

namespace forge::text {

using Decoder = std::function<void(std::vector<std::string>& tokens)>;

// Returns the decoder for "decoder" of a tokenizer.json. Throws Error(environment) naming an
// unknown type.
Decoder make_decoder(const Json& spec, const std::string& where);

// True if the decoder is ByteLevel alone, whose result is the tokens' bytes one after another.
bool is_byte_level_decoder(const Json& spec);
// Returns the bytes of a token of a ByteLevel vocabulary. A token outside the alphabet stands for
// itself.
std::string byte_level_bytes(const std::string& token);
// Returns the value of a byte token like <0x41>; -1 for others.
int byte_token(const std::string& token);

}  // namespace forge::text
