#include "core/lib/text/tokenizer/unicode.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <vector>

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"

namespace forge::text {
namespace {

constexpr ClassRun kRuns[] = {
#include "core/lib/text/tokenizer/unicode_ranges.inc"
};

std::unique_ptr<ClassTable> build_table() {
  std::vector<uint32_t> bits(0x110000, 0);
  for (size_t k = 0; k < std::size(kRuns); ++k) {
    const uint32_t end = k + 1 < std::size(kRuns) ? kRuns[k + 1].first : 0x110000;
    for (uint32_t code = kRuns[k].first; code < end; ++code) bits[code] = kRuns[k].bits;
  }
  auto table = std::make_unique<ClassTable>();
  std::map<std::vector<uint32_t>, uint16_t> pages;
  for (uint32_t page = 0; page < 0x1100; ++page) {
    const std::vector<uint32_t> content(bits.begin() + page * 256, bits.begin() + (page + 1) * 256);
    const auto [place, fresh] = pages.try_emplace(content, static_cast<uint16_t>(pages.size()));
    FORGE_CHECK(place->second < 1024, "more kinds of pages than the table holds");
    if (fresh) std::memcpy(table->bits[place->second], content.data(), sizeof(table->bits[0]));
    table->page[page] = place->second;
  }
  return table;
}

struct Alphabet {
  std::array<uint16_t, 256> to_char;
  std::array<int16_t, 512> to_byte;
  Alphabet() {
    to_byte.fill(-1);
    uint16_t next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      to_char[byte] = printable ? static_cast<uint16_t>(byte) : next++;
      to_byte[to_char[byte]] = static_cast<int16_t>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet table;
  return table;
}

}  // namespace

const ClassTable& class_table() {
  static const std::unique_ptr<ClassTable> table = build_table();
  return *table;
}

std::span<const ClassRun> class_runs() { return kRuns; }

void append_utf8(std::string& out, uint32_t code) {
  constexpr uint32_t kLeads[] = {0, 0xC0, 0xE0, 0xF0};
  const int more = (code >= 0x80) + (code >= 0x800) + (code >= 0x10000);  // bytes after the first
  out += static_cast<char>(kLeads[more] | code >> 6 * more);
  for (int k = more - 1; k >= 0; --k) out += static_cast<char>(0x80 | (code >> 6 * k & 63));
}

bool all_ascii(std::string_view text) {
  size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    if (word & 0x8080808080808080u) return false;
  }
  return std::all_of(text.begin() + static_cast<int64_t>(at), text.end(),
                     [](unsigned char byte) { return byte < 0x80; });
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t at = 0, bad = 0; at < bytes.size();) {
    const size_t length = utf8_character(bytes, at, &bad);
    if (length > 0) {
      out.append(bytes.substr(at, length));
      at += length;
    } else {
      out += "\xEF\xBF\xBD";
      at += bad;
    }
  }
  return out;
}

uint32_t byte_to_alphabet(unsigned char byte) { return alphabet().to_char[byte]; }

int alphabet_to_byte(uint32_t code) { return code < 512 ? alphabet().to_byte[code] : -1; }

std::optional<std::string> alphabet_bytes(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const int byte = alphabet_to_byte(next_char(text, at));
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace forge::text
