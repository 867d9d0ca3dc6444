#include "core/lib/text/jinja/marked_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace forge::jinja {

MarkedText::MarkedText(std::string text, Mark mark) : bytes(std::move(text)) {
  if (!bytes.empty()) runs.push_back({size(), mark});
}

Mark MarkedText::mark_at(int64_t offset) const {
  auto run =
      std::upper_bound(runs.begin(), runs.end(), offset,
                       [](int64_t value, const MarkedRun& candidate) { return value < candidate.end; });
  return run == runs.end() ? kFromTemplate : run->mark;
}

MarkedText MarkedText::slice(int64_t begin, int64_t end) const {
  TextBuilder builder;
  builder.add(*this, begin, end);
  return builder.take();
}

void TextBuilder::add(std::string_view bytes, Mark mark) {
  if (bytes.empty()) return;
  text_.bytes.append(bytes);
  if (!text_.runs.empty() && text_.runs.back().mark == mark)
    text_.runs.back().end = text_.size();
  else
    text_.runs.push_back({text_.size(), mark});
}

void TextBuilder::add(const MarkedText& text, int64_t begin, int64_t end) {
  if (begin >= end) return;
  auto run =
      std::upper_bound(text.runs.begin(), text.runs.end(), begin,
                       [](int64_t value, const MarkedRun& candidate) { return value < candidate.end; });
  const std::string_view bytes = text.bytes;
  for (; run != text.runs.end() && begin < end; ++run) {
    const int64_t stop = std::min(run->end, end);
    add(bytes.substr(begin, stop - begin), run->mark);
    begin = stop;
  }
}

void TextBuilder::mark_from(int64_t begin, Mark bits) {
  MarkedText tail = text_.slice(begin, text_.size());
  text_ = text_.slice(0, begin);
  for (MarkedRun& run : tail.runs) run.mark |= bits;
  add(tail);
}

MarkedText TextBuilder::take() {
  MarkedText result = std::move(text_);
  text_ = {};
  return result;
}

uint32_t next_code_point(std::string_view text, int64_t& offset) {
  if (static_cast<unsigned char>(text[offset]) < 0x80) return static_cast<uint32_t>(text[offset++]);
  auto at = static_cast<size_t>(offset);
  size_t broken = 0;
  const bool whole = utf8_character(text, at, &broken) > 0;
  const uint32_t code_point = whole ? text::next_char(text, at) : 0xFFFD;
  offset = whole ? static_cast<int64_t>(at) : offset + 1;
  return code_point;
}

int64_t byte_offset(std::string_view text, int64_t index) {
  const auto size = static_cast<int64_t>(text.size());
  int64_t offset = 0;
  while (index > 0 && offset < size) {
    ++offset;
    while (offset < size && (text[offset] & 0xC0) == 0x80) ++offset;
    --index;
  }
  return offset;
}

namespace {

utf8proc_category_t category(uint32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

// True if the category is one of those from `first` to `last`, in the order of utf8proc.
bool is_within(uint32_t code_point, utf8proc_category_t first, utf8proc_category_t last) {
  return category(code_point) >= first && category(code_point) <= last;
}

// The full mappings of SpecialCasing.txt that differ from the simple ones: {character, upper,
// title}.
struct SpecialCase {
  uint32_t code_point;
  const char* upper;
  const char* title;
};
constexpr std::array kSpecialCases{
    SpecialCase{0xDF, "SS", "Ss"},     SpecialCase{0x149, "ʼN", "ʼN"},    SpecialCase{0x1F0, "J̌", "J̌"},
    SpecialCase{0x587, "ԵՒ", "Եւ"},    SpecialCase{0x1E96, "H̱", "H̱"},     SpecialCase{0x1E97, "T̈", "T̈"},
    SpecialCase{0x1E98, "W̊", "W̊"},     SpecialCase{0x1E99, "Y̊", "Y̊"},     SpecialCase{0x1E9A, "Aʾ", "Aʾ"},
    SpecialCase{0xFB00, "FF", "Ff"},   SpecialCase{0xFB01, "FI", "Fi"},   SpecialCase{0xFB02, "FL", "Fl"},
    SpecialCase{0xFB03, "FFI", "Ffi"}, SpecialCase{0xFB04, "FFL", "Ffl"}, SpecialCase{0xFB05, "ST", "St"},
    SpecialCase{0xFB06, "ST", "St"},
};

const SpecialCase* special_case(uint32_t code_point) {
  for (const SpecialCase& candidate : kSpecialCases)
    if (candidate.code_point == code_point) return &candidate;
  return nullptr;
}

}  // namespace

bool is_space(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || category(c) == UTF8PROC_CATEGORY_ZS || c == 0x2028 || c == 0x2029;
}

// True for letters, marks, numbers, punctuation and symbols; of the separators, for ' ' alone.
bool is_printable(uint32_t c) {
  return c == ' ' || is_within(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_SO);
}
bool is_alpha(uint32_t c) { return is_within(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO); }

bool is_digit(uint32_t c) {
  if (category(c) == UTF8PROC_CATEGORY_ND) return true;
  return c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}

bool is_numeric(uint32_t c) { return is_within(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO); }

bool is_upper(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA; }

std::string to_upper(uint32_t c) {
  if (const SpecialCase* special = special_case(c)) return special->upper;
  return utf8_of(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}

std::string to_lower(uint32_t c) {
  if (c == 0x130) return "i̇";
  return utf8_of(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

std::string to_title(uint32_t c) {
  if (const SpecialCase* special = special_case(c)) return special->title;
  return utf8_of(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

}  // namespace forge::jinja
