#include "core/lib/base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <span>
#include <thread>
#include <vector>

#include "core/lib/base/file.h"
#include "core/lib/base/format.h"
#include "core/lib/base/text.h"

namespace forge {

struct Hasher::State {
  XXH3_state_t value;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->value); }
Hasher::~Hasher() = default;

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

namespace {

std::string hash_block(const RegularFile& file, int64_t block, std::vector<char>& buffer) {
  const int64_t end = std::min(file.size(), (block + 1) * kHashBlockBytes);
  Hasher hasher;
  for (int64_t at = block * kHashBlockBytes; at < end; at += static_cast<int64_t>(buffer.size())) {
    const std::span part(buffer.data(), static_cast<size_t>(std::min<int64_t>(end - at, std::ssize(buffer))));
    file.read_at(at, part);
    hasher.add(part.data(), part.size());
  }
  return hasher.hex();
}

}  // namespace

std::string hash_file(const std::string& path, ErrorKind kind) {
  const RegularFile file(path, kind);
  const int64_t blocks = std::max<int64_t>(1, (file.size() + kHashBlockBytes - 1) / kHashBlockBytes);
  std::vector<std::string> hashes(static_cast<size_t>(blocks));
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    std::vector<char> buffer(size_t{256} << 10);
    for (int64_t block; (block = next++) < blocks;)
      hashes[static_cast<size_t>(block)] = hash_block(file, block, buffer);
  };
  const int64_t threads = std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, blocks);
  std::vector<std::future<void>> others;
  for (int64_t i = 1; i < threads; ++i) others.push_back(std::async(std::launch::async, work));
  work();
  for (auto& other : others) other.get();
  return blocks == 1 ? hashes[0] : hash_hex(join(hashes, ""));
}

}  // namespace forge
