#pragma once
// Decoders: turn the strings of tokens back into text.
#include <memory>
#include <string>
#include <vector>

#include "core/io/json.h"

namespace forge::text {

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

// From the "decoder" of a tokenizer.json. Throws Error(environment) naming an unknown type.
std::unique_ptr<Decoder> make_decoder(const Json& spec, const std::string& where);
// Whether it is ByteLevel alone, whose result is the tokens' bytes one after another.
bool is_byte_level_decoder(const Json& spec);
// The bytes of a token of a ByteLevel vocabulary; a token outside the alphabet stands for itself.
std::string byte_level_bytes(const std::string& token);
// The value of a byte token like <0x41>; -1 for others.
int byte_token(const std::string& token);

}  // namespace forge::text
