#pragma once
// Interface of streaming decompression, so that InputFile knows no format.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace forge {

struct Decompressed {
  size_t consumed = 0, produced = 0;
  std::string problem;  // why the data cannot be decoded further; what was produced is good
};

class Decompressor {
 public:
  virtual ~Decompressor() = default;
  virtual const char* name() const = 0;
  // Neither consumes nor produces anything only when it needs more input.
  virtual Decompressed decode(std::string_view input, char* into, size_t size) = 0;
  // True if the data may end here: after a whole member or frame.
  virtual bool complete() const = 0;
};

// Returns the decoder for a file that begins so; null when it is not compressed.
std::unique_ptr<Decompressor> decompressor_for(std::string_view start);

}  // namespace forge
