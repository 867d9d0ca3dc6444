#pragma once
// Characters: UTF-8 decoding and the classes of every code point. The classes were measured on the
// `tokenizers` package (see tests/parity/make_unicode_table.py), because PCRE2 and utf8proc have
// other versions of Unicode.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace forge::text {

// clang-format off
enum CharClass : uint32_t {
  kLetter = 1u << 0, kNumber = 1u << 1, kSpace = 1u << 2, kPunctuation = 1u << 3, kSymbol = 1u << 4, kMark = 1u << 5,
  kUpper = 1u << 6, kLower = 1u << 7, kTitle = 1u << 8, kModifier = 1u << 9, kHan = 1u << 10,
  kWord = 1u << 11,             // \w of the regex crate
  kDigit = 1u << 12,            // \d of Oniguruma
  kNumeric = 1u << 13,          // char::is_numeric of Rust
  kBertPunctuation = 1u << 14, kBertControl = 1u << 15, kBertAccent = 1u << 16,
  kCombining = 1u << 17, kOnigWord = 1u << 18,
  kDecomposes = 1u << 19,       // NFKD changes it, to the package's data (Unicode 9)
  kReordered = 1u << 20,        // a mark that canonical ordering moves, to the same data
};
// clang-format on

// The classes of all code points in two levels: pages of 256.
struct ClassTable {
  uint16_t page[0x110000 >> 8];
  uint32_t bits[1024][256];
  uint32_t operator[](uint32_t code) const { return bits[page[code >> 8]][code & 255]; }
};
const ClassTable& class_table();
inline uint32_t classes_of(uint32_t code) { return class_table()[code]; }

// A run of equal class bits: [first, next first). It is used to build regular expressions.
struct ClassRun {
  uint32_t first;
  uint32_t bits;
};
std::span<const ClassRun> class_runs();

// Returns the length in bytes of the character whose first byte is `lead`, in valid UTF-8.
inline int utf8_length(unsigned char lead) { return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4; }

// Returns the start of the character that ends at `at`, in valid UTF-8.
inline size_t char_before(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

// Returns the character at text[at] of valid UTF-8, and moves `at` past it.
inline uint32_t next_char(std::string_view text, size_t& at) {
  const auto* byte = reinterpret_cast<const unsigned char*>(text.data()) + at;
  if (byte[0] < 0x80) return at += 1, byte[0];
  if (byte[0] < 0xE0) return at += 2, (byte[0] & 31u) << 6 | (byte[1] & 63u);
  if (byte[0] < 0xF0) return at += 3, (byte[0] & 15u) << 12 | (byte[1] & 63u) << 6 | (byte[2] & 63u);
  return at += 4, (byte[0] & 7u) << 18 | (byte[1] & 63u) << 12 | (byte[2] & 63u) << 6 | (byte[3] & 63u);
}

void append_utf8(std::string& out, uint32_t code);
inline std::string utf8_of(uint32_t code) {
  std::string text;
  append_utf8(text, code);
  return text;
}
bool all_ascii(std::string_view text);
// Returns `bytes` with every maximal ill-formed part as U+FFFD, as Rust's from_utf8_lossy and the
// Unicode standard's practice do.
std::string replace_invalid_utf8(std::string_view bytes);

// Returns a byte's character in GPT-2's alphabet, where every byte is printable.
uint32_t byte_to_alphabet(unsigned char byte);
int alphabet_to_byte(uint32_t code);  // -1 for characters outside the alphabet
// Returns the bytes that a text of the alphabet stands for; nothing if it has other characters.
std::optional<std::string> alphabet_bytes(std::string_view text);

}  // namespace forge::text
