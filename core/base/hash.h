#pragma once
// XXH3-128 of bytes: identity of data, models and checkpoint files. Not a defence against forgery.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace forge {

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  Hasher& add(const void* bytes, size_t size);
  // Adds the length too, so that ("ab", "c") and ("a", "bc") differ.
  Hasher& add(std::string_view text);
  Hasher& add(int64_t value);
  // 32 lower-case hexadecimal digits; the hasher may go on afterwards.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string hash_hex(std::string_view bytes);
// Hash of a whole file's content. Throws Error(environment) when it cannot be read.
std::string hash_file(const std::string& path);

}  // namespace forge
