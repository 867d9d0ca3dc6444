#pragma once
// XXH3-128 of bytes: identity of data, models and checkpoint files. Not a defence against forgery.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/lib/base/error.h"

namespace forge {

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher& add(const void* bytes, size_t size);
  // Adds the length too, so that ("ab", "c") and ("a", "bc") differ.
  Hasher& add(std::string_view text);
  Hasher& add(int64_t value);
  // Returns 32 lower-case hexadecimal digits. More may be added afterwards.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string hash_hex(std::string_view bytes);
// Returns the hash of a whole file's content: that of the hashes of its blocks of kHashBlockBytes,
// in order. The blocks are hashed on all cores. A file of one block has the hash of its bytes. The
// file is read through 256 KiB a thread, not mapped, so that it does not count as memory of the
// process. Throws Error(kind) when the file cannot be read.
constexpr int64_t kHashBlockBytes = int64_t{4} << 20;
std::string hash_file(const std::string& path, ErrorKind kind = ErrorKind::environment);

}  // namespace forge
