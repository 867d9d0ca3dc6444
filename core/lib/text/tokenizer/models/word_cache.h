#pragma once
// Caches words and their tokens: a small table per thread, one cache line a word, overwritten on
// collision.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "core/lib/text/tokenizer/models/models.h"

namespace forge::text {

class WordCache {
 public:
  // Returns the number of a new model. Every model has words of its own.
  static uint64_t new_model();

  // Calls visit(token) for every token of a word: the result of compute(word, tokens) from the last
  // time the word was seen, or from now.
  template <class Compute, class Visit>
  static void each_token(uint64_t model, std::string_view word, Compute compute, Visit visit) {
    thread_local std::vector<WordToken> fresh;
    if (word.size() > kWordBytes) {
      fresh.clear();
      compute(word, fresh);
      for (const WordToken& token : fresh) visit(token);
      return;
    }
    Entry& entry = of_this_thread(model).slot(word);
    if (!holds(entry, word)) {
      fresh.clear();
      compute(word, fresh);
      if (!keep(word, fresh, entry)) {
        for (const WordToken& token : fresh) visit(token);
        return;
      }
    }
    int32_t at = 0;
    for (size_t i = 0; i < entry.count; at += entry.lengths[i++])
      visit(WordToken{entry.ids[i], at, at + entry.lengths[i]});
  }

 private:
  static constexpr size_t kWordBytes = 23;
  static constexpr size_t kTokens = 6;

  struct Entry {
    char word[kWordBytes];
    uint8_t bytes;  // bytes of the word; 0: empty
    uint8_t count;
    uint8_t lengths[kTokens];  // lengths of the tokens, in bytes of the word
    int32_t ids[kTokens];
  };

  // Returns the cache of this thread for the model with this number.
  static WordCache& of_this_thread(uint64_t model);

  Entry& slot(std::string_view word) { return entries_[hash(word) & (kEntries - 1)]; }
  static bool holds(const Entry& entry, std::string_view word) {
    return entry.bytes == word.size() && std::memcmp(entry.word, word.data(), word.size()) == 0;
  }
  // Stores the tokens if the entry can hold them: a few tokens, end to end. Returns false
  // otherwise.
  static bool keep(std::string_view word, const std::vector<WordToken>& tokens, Entry& entry);

  static constexpr size_t kEntries = 1 << 14;
  static uint64_t hash(std::string_view word) {
    // The hash takes two overlapping loads and the length for short words. Speed matters more here
    // than quality.
    uint64_t a = 0, b = 0, c = 0;
    const size_t n = word.size();
    if (n >= 8) {
      std::memcpy(&a, word.data(), 8);
      std::memcpy(&b, word.data() + n - 8, 8);
      if (n > 16) std::memcpy(&c, word.data() + 8, 8);
    } else {
      std::memcpy(&a, word.data(), n);
    }
    uint64_t h = (a ^ (b << 29 | b >> 35) ^ (n << 56) ^ c * 0xC2B2AE3D27D4EB4Full) * 0x9E3779B97F4A7C15ull;
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93ull;
    return h >> 32;
  }
  std::unique_ptr<Entry[]> entries_ = std::make_unique<Entry[]>(kEntries);
  uint64_t model_ = 0;
};

}  // namespace forge::text
