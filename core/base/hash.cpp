#include "core/base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fmt/format.h>

#include "core/base/file.h"

namespace forge {

struct Hasher::State {
  XXH3_state_t value;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->value); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

Hasher& Hasher::add(const void* bytes, size_t size) {
  XXH3_128bits_update(&state_->value, bytes, size);
  return *this;
}

Hasher& Hasher::add(std::string_view text) {
  add(static_cast<int64_t>(text.size()));
  return add(text.data(), text.size());
}

Hasher& Hasher::add(int64_t value) { return add(&value, sizeof value); }

std::string Hasher::hex() const {
  XXH128_hash_t digest = XXH3_128bits_digest(&state_->value);
  return fmt::format("{:016x}{:016x}", digest.high64, digest.low64);
}

std::string hash_hex(std::string_view bytes) { return Hasher().add(bytes.data(), bytes.size()).hex(); }

std::string hash_file(const std::string& path) {
  MappedFile file(path);
  return hash_hex(file.bytes());
}

}  // namespace forge
