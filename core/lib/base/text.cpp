#include "core/lib/base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/lib/base/format.h"
#include "core/lib/base/typo.h"

namespace forge {

// Allows one edit, and from eight letters on a quarter of the word's length: export is not guessed
// for import, nor complete for completion.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  return closest(word, candidates, std::max<size_t>(1, word.size() / 4),
                 [](std::string_view, std::string_view other, size_t edits) { return edits < other.size(); });
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  std::string name = nearest(word, candidates);
  return name.empty() ? "" : " (did you mean \"" + name + "\"?)";
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i) text += separator;
    text += parts[i];
  }
  return text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] != separator) continue;
    parts.emplace_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

bool starts_with(std::string_view text, std::string_view prefix) { return text.starts_with(prefix); }
bool ends_with(std::string_view text, std::string_view suffix) { return text.ends_with(suffix); }

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

std::string format_bytes(int64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_count(int64_t count) {
  std::string digits = std::to_string(count);
  const size_t first = digits[0] == '-' ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string format_seconds(double seconds) {
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  const int64_t whole = std::llround(seconds), minutes = std::llround(seconds / 60);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

std::string format_number(double value) {
  char text[64];
  double size = std::abs(value);
  bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  auto end = std::to_chars(text, text + sizeof text, value, format).ptr;
  return std::string(text, end);
}

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> width;
  for (const auto& row : rows) {
    width.resize(std::max(width.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i)
      width[i] = std::max(width[i], static_cast<size_t>(count_characters(row[i])));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size())
        line.append(width[i] - static_cast<size_t>(count_characters(row[i])) + 2, ' ');
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + "\n";
  }
  return text;
}

size_t utf8_character(std::string_view bytes, size_t at, size_t* broken) {
  const auto byte = [&](size_t k) -> unsigned {
    return k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0;
  };
  const unsigned lead = byte(at);
  *broken = 1;
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and code points past U+10FFFF.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t k = 1; k < length; ++k) {
    const unsigned next = byte(at + k);
    if (next < (k == 1 ? low : 0x80) || next > (k == 1 ? high : 0xBF)) return 0;
    *broken = k + 1;
  }
  return length;
}

// True if the eight bytes from `at` on are ASCII, as most bytes of most texts are.
static bool eight_ascii(std::string_view text, size_t at) {
  uint64_t word = 0;
  if (at + 8 > text.size()) return false;
  std::memcpy(&word, text.data() + at, 8);
  return (word & 0x8080808080808080u) == 0;
}

bool valid_utf8(std::string_view text, size_t* bad) {
  for (size_t at = 0, broken = 0; at < text.size();) {
    if (eight_ascii(text, at)) {
      at += 8;
      continue;
    }
    const size_t length = utf8_character(text, at, &broken);
    if (length == 0) {
      if (bad) *bad = at;
      return false;
    }
    at += length;
  }
  return true;
}

}  // namespace forge
