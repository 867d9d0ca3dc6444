#include "core/lib/base/text.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/lib/base/typo.h"

namespace forge {

// Allows one edit, and from eight letters on a quarter of the word's length: export is not guessed
// for import, nor complete for completion.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  const std::string small = lower(word);
  size_t best_distance = std::max<size_t>(1, word.size() / 4) + 1;
  for (const std::string& candidate : candidates) {
    // The distance is at least the difference in length; this keeps long column names cheap.
    const size_t longer = std::max(word.size(), candidate.size()),
                 shorter = std::min(word.size(), candidate.size());
    if (longer - shorter >= best_distance) continue;
    size_t distance = edit_distance(small, lower(candidate));
    if (distance < best_distance && distance < candidate.size()) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
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

namespace {

// Returns the number of characters: UTF-8 continuation bytes are not counted.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> width;
  for (const auto& row : rows) {
    width.resize(std::max(width.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], width_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(width[i] - width_of(row[i]) + 2, ' ');
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + "\n";
  }
  return text;
}

bool valid_utf8(std::string_view text, size_t* bad) {
  size_t i = 0;
  while (i < text.size()) {
    auto byte = [&](size_t k) { return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u; };
    unsigned lead = byte(0);
    size_t length = lead < 0x80         ? 1
                    : (lead >> 5) == 6  ? 2
                    : (lead >> 4) == 14 ? 3
                    : (lead >> 3) == 30 ? 4
                                        : 0;
    bool good = length != 0;
    uint32_t code = length <= 1 ? lead : lead & (0x7Fu >> length);
    for (size_t k = 1; good && k < length; ++k) {
      good = (byte(k) >> 6) == 2;
      code = code << 6 | (byte(k) & 0x3Fu);
    }
    constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (good) good = code >= kSmallest[length] && code <= 0x10FFFF && !(code >= 0xD800 && code <= 0xDFFF);
    if (!good) {
      if (bad) *bad = i;
      return false;
    }
    i += length;
  }
  return true;
}

}  // namespace forge
