// The small normalizers: Strip, StripAccents, Lowercase, Replace, Prepend, Nmt, ByteLevel.
#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/normalize/normalizers.h"
#include "core/lib/text/tokenizer/regex.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

void strip(AlignedText& text, bool left, bool right) {
  size_t first = 0, last = text.text.size();
  for (size_t at = 0; left && at < text.text.size(); first = at) {
    if (!(classes_of(next_char(text.text, at)) & kSpace)) break;
  }
  while (right && last > first) {
    const size_t begin = char_before(text.text, last);
    size_t at = begin;
    if (!(classes_of(next_char(text.text, at)) & kSpace)) break;
    last = begin;
  }
  text.text = text.text.substr(first, last - first);
  text.origin = std::vector<Origin>(text.origin.begin() + static_cast<int64_t>(first),
                                    text.origin.begin() + static_cast<int64_t>(last));
}

void strip_accents(AlignedText& text) { remove_classes(text, kCombining); }

// The replacement is mapped to the last replaced byte.
void replace(AlignedText& text, const Regex& regex, const std::string& content) {
  AlignedText next{.growth = text.growth};
  size_t last = 0;
  const auto copy = [&](size_t end) {
    next.text.append(text.text, last, end - last);
    next.origin.insert(next.origin.end(), text.origin.begin() + static_cast<int64_t>(last),
                       text.origin.begin() + static_cast<int64_t>(end));
    last = end;
  };
  regex.each_match(text.text, [&](size_t begin, size_t end) {
    copy(begin);
    next.require(next.text.size() + content.size());
    next.text += content;
    next.origin.resize(next.text.size(), end > 0 ? text.origin[end - 1] : Origin{});
    last = end;
  });
  copy(text.text.size());
  text = std::move(next);
}

// SentencePiece's "nmt" rules: control characters are removed, odd spaces become spaces.
void nmt(AlignedText& text) {
  text.map([](uint32_t c) -> std::optional<uint32_t> {
    if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
        c == 0x9F)
      return std::nullopt;
    const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                       (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                       c == 0xFEFF || c == 0xFFFD;
    return space ? ' ' : c;
  });
}

}  // namespace

Normalizer make_simple_normalizer(const std::string& type, const Json& spec,
                                  const std::string& where) {
  if (type == "Strip") {
    const bool right = bool_member(spec, "strip_right", where, true);
    const bool left = bool_member(spec, "strip_left", where, true);
    return {[left, right](AlignedText& text) { strip(text, left, right); }};
  }
  if (type == "StripAccents") return {strip_accents, all_ascii};
  if (type == "Lowercase") return {apply_lowercase};
  if (type == "Prepend") {
    const std::string prefix = string_member(spec, "prepend", where);
    return {[prefix](AlignedText& text) { text.prepend(prefix); }};
  }
  if (type == "Nmt") return {nmt};
  if (type == "ByteLevel") return {&AlignedText::to_alphabet};
  const PatternField pattern = pattern_member(spec, where);
  const std::string content = string_member(spec, "content", where);
  const Regex regex = pattern.is_regex ? Regex(pattern.text, where) : Regex::literal(pattern.text, where);
  return {[regex, content](AlignedText& text) { replace(text, regex, content); },
          [regex](std::string_view text) {
            bool found = false;
            regex.each_match(text, [&](size_t, size_t) { found = true; });
            return !found;
          }};
}

}  // namespace forge::text
