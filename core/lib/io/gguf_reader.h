#pragma once
// A cursor over a GGUF's bytes that never passes their end, and the two element tables of the
// format.
#include <cstring>
#include <string>
#include <string_view>

#include "core/lib/io/gguf.h"

namespace forge {

// Returns the bytes of a scalar; 0 for strings and arrays, whose size is in the file.
int64_t scalar_bytes(GgufType type);
constexpr uint32_t kGgufTypes = 13;

class GgufCursor {
 public:
  GgufCursor(std::string_view bytes, std::string path) : bytes_(bytes), path_(std::move(path)) {}

  size_t position() const { return position_; }
  int64_t left() const { return static_cast<int64_t>(bytes_.size() - position_); }
  [[noreturn]] void fail(const std::string& what, const std::string& hint = "") const;

  template <class Scalar>
  Scalar scalar(const char* what) {
    Scalar value;
    std::memcpy(&value, skip(sizeof(Scalar), what).data(), sizeof(Scalar));
    return value;
  }
  std::string_view string(const char* what);
  // Reads a count of things of at least `smallest` bytes each: it must fit into what is left.
  int64_t count(int64_t smallest, const char* what);
  std::string_view skip(int64_t size, const char* what);
  GgufType type(const char* what);
  // Reads any value after its type; `depth` bounds arrays of arrays.
  GgufValue value(GgufType type, int depth = 0);

 private:
  GgufValue array(int depth);
  std::string_view bytes_;
  std::string path_;
  size_t position_ = 0;
};

}  // namespace forge
