#include "core/data/rows/similar.h"

#include <algorithm>
#include <cctype>
#include <map>

namespace forge {
namespace {

constexpr size_t kShingleWords = 3, kLeastShingles = 8;
constexpr size_t kBandBins = 4, kCompared = 8;  // earliest texts of a band to compare others with
constexpr uint32_t kEmpty = UINT32_MAX;

uint64_t mixed(uint64_t x) {  // SplitMix64's finaliser
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Returns the hashes of the words in order.
std::vector<uint64_t> word_hashes(std::string_view text) {
  std::vector<uint64_t> words;
  uint64_t hash = 0;
  const auto end_word = [&] {
    if (hash != 0) words.push_back(mixed(hash));
    hash = 0;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0xE3) {  // from U+3000 on: East Asian scripts, one word per character
      end_word();
      const size_t length = byte >= 0xF0 ? 4 : 3;
      for (size_t j = 0; j < length && i + j < text.size(); ++j)
        hash = hash * 1099511628211 + static_cast<unsigned char>(text[i + j]) + 1;
      i += length - 1;
      end_word();
    } else if (byte >= 0x80 || std::isalnum(byte)) {
      hash = hash * 1099511628211 + static_cast<uint64_t>(std::tolower(byte)) + 1;
    } else {
      end_word();
    }
  }
  end_word();
  return words;
}

uint64_t band_hash(const Sketch& sketch, size_t band) {
  uint64_t hash = band + 1;
  bool any = false;
  for (size_t i = band * kBandBins; i < (band + 1) * kBandBins; ++i) {
    any |= sketch[i] != kEmpty;
    hash = mixed(hash ^ sketch[i]);
  }
  return any ? hash : 0;
}

}  // namespace

Sketch sketch_of(std::string_view text) {
  Sketch sketch;
  sketch.fill(kEmpty);
  const std::vector<uint64_t> words = word_hashes(text);
  if (words.size() < kShingleWords + kLeastShingles - 1) return sketch;
  for (size_t i = 0; i + kShingleWords <= words.size(); ++i) {
    uint64_t hash = 0;
    for (size_t j = 0; j < kShingleWords; ++j) hash = mixed(hash ^ words[i + j]);
    uint32_t& bin = sketch[hash % sketch.size()];
    bin = std::min(bin, static_cast<uint32_t>(hash >> 33));
  }
  return sketch;
}

double similarity(const Sketch& a, const Sketch& b) {
  int64_t used = 0, equal = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == kEmpty && b[i] == kEmpty) continue;
    ++used;
    equal += a[i] == b[i];
  }
  return used == 0 ? 0 : static_cast<double>(equal) / static_cast<double>(used);
}

std::vector<SimilarPair> similar_pairs(const std::vector<Sketch>& sketches) {
  std::map<size_t, SimilarPair> found;  // keyed by the later text
  std::vector<std::pair<uint32_t, uint32_t>> order;
  for (size_t band = 0; band * kBandBins < Sketch{}.size(); ++band) {
    order.clear();
    for (size_t i = 0; i < sketches.size(); ++i)
      if (const uint64_t hash = band_hash(sketches[i], band))
        order.emplace_back(static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(i));
    std::sort(order.begin(), order.end());
    for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
      while (end < order.size() && order[end].first == order[begin].first) ++end;
      for (size_t i = begin + 1; i < end; ++i)
        for (size_t j = begin; j < std::min(i, begin + kCompared); ++j) {
          const size_t earlier = order[j].second, later = order[i].second;
          const double similar = similarity(sketches[earlier], sketches[later]);
          if (similar < kSimilar) continue;
          const auto [place, fresh] = found.try_emplace(later, SimilarPair{earlier, later, similar});
          if (!fresh && earlier < place->second.earlier) place->second = {earlier, later, similar};
          break;
        }
    }
  }
  std::vector<SimilarPair> pairs;
  for (const auto& [later, pair] : found) pairs.push_back(pair);
  return pairs;
}

}  // namespace forge
