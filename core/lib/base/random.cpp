#include "core/lib/base/random.h"

#include <cmath>
#include <numbers>
#include <numeric>

namespace forge {

std::array<uint32_t, 4> philox(uint64_t seed, uint64_t stream, uint64_t index) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  std::array<uint32_t, 4> c{static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                            static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = kMultiplier0 * c[0], product1 = kMultiplier1 * c[2];
    c = {static_cast<uint32_t>(product1 >> 32) ^ c[1] ^ key0, static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ c[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return c;
}

double uniform(uint64_t seed, uint64_t stream, uint64_t index) {
  auto words = philox(seed, stream, index);
  uint64_t bits = static_cast<uint64_t>(words[0]) << 21 ^ words[1] >> 11;
  return static_cast<double>(bits & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
}

double normal(uint64_t seed, uint64_t stream, uint64_t index) {
  auto words = philox(seed, stream, index);
  double radius = (words[0] + 1.0) * 0x1p-32, angle = words[1] * 0x1p-32;
  return std::sqrt(-2 * std::log(radius)) * std::cos(2 * std::numbers::pi * angle);
}

uint64_t stream_of(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a, 64 bits
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

std::vector<int64_t> permutation(uint64_t seed, uint64_t stream, int64_t count) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = count - 1; i > 0; --i) {
    // Multiply-shift of 64 random bits: the bias is below count / 2^64.
    auto words = philox(seed, stream, static_cast<uint64_t>(i));
    unsigned __int128 product = (static_cast<unsigned __int128>(words[0]) << 32 | words[1]) * (i + 1);
    std::swap(order[i], order[static_cast<size_t>(product >> 64)]);
  }
  return order;
}

}  // namespace forge
