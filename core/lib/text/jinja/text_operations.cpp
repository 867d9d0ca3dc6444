// String operations on marked text: each byte of the result keeps the mark of its source byte.
#include "core/lib/text/jinja/text_operations.h"

#include <algorithm>

#include "core/lib/text/jinja/builtins.h"

namespace forge::jinja {

MarkedText html_escaped(const MarkedText& text) {
  static constexpr std::pair<char, std::string_view> kEntities[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&#34;"}, {'\'', "&#39;"}};
  if (text.safe) return text;
  TextBuilder out;
  for (int64_t i = 0; i < text.size(); ++i) {
    const auto* found = std::find_if(std::begin(kEntities), std::end(kEntities),
                                     [&](const auto& row) { return row.first == text.bytes[i]; });
    found == std::end(kEntities) ? out.add(text, i, i + 1) : out.add(found->second, text.mark_at(i));
  }
  MarkedText result = out.take();
  result.safe = true;
  return result;
}

MarkedText upper(const MarkedText& text) { return mapped(text, to_upper); }

namespace {

bool is_cased(uint32_t c) { return is_upper(c) || is_lower(c); }

// True where 'Σ' becomes 'ς' at the end of a word (Unicode's Final_Sigma): a letter precedes it and
// none follows.
bool final_sigma(const MarkedText& text, int64_t begin, int64_t end) {
  if (begin == 0) return false;
  auto before = static_cast<int64_t>(text::char_before(text.bytes, begin));
  if (!is_cased(next_code_point(text.bytes, before))) return false;
  return end >= text.size() || !is_cased(next_code_point(text.bytes, end));
}

bool in_set(uint32_t c, const std::string* set) {
  if (!set) return is_space(c);
  for (int64_t offset = 0; offset < static_cast<int64_t>(set->size());)
    if (next_code_point(*set, offset) == c) return true;
  return false;
}

}  // namespace

MarkedText lower(const MarkedText& text) {
  TextBuilder out;
  int64_t offset = 0;
  for (const MarkedRun& run : text.runs) {
    std::string piece;
    while (offset < run.end) {
      const int64_t begin = offset;
      const uint32_t c = next_code_point(text.bytes, offset);
      piece += c == 0x3A3 && final_sigma(text, begin, offset) ? "ς" : to_lower(c);
    }
    out.add(piece, run.mark);
  }
  return out.take();
}

MarkedText capitalized(const MarkedText& text) {
  if (text.size() == 0) return text;
  int64_t first = 0;
  next_code_point(text.bytes, first);
  TextBuilder out;
  out.add(mapped(text.slice(0, first), to_title));
  out.add(lower(text.slice(first, text.size())));
  return out.take();
}

MarkedText stripped(const MarkedText& text, const std::string* set, bool left, bool right) {
  int64_t begin = 0, end = text.size();
  while (left && begin < end) {
    int64_t next = begin;
    if (!in_set(next_code_point(text.bytes, next), set)) break;
    begin = next;
  }
  while (right && end > begin) {
    const auto last = static_cast<int64_t>(text::char_before(text.bytes, end));
    int64_t offset = last;
    if (!in_set(next_code_point(text.bytes, offset), set)) break;
    end = last;
  }
  return begin == 0 && end == text.size() ? text : text.slice(begin, end);
}

// An empty `from` matches before each character and at the end.
MarkedText replaced(Interpreter& interpreter, const MarkedText& text, const MarkedText& from,
                    const MarkedText& to, int64_t count) {
  interpreter.spend_text(text.size());
  TextBuilder out;
  int64_t at = 0, search = 0;
  for (; count != 0; --count) {
    const size_t found = text.bytes.find(from.bytes, static_cast<size_t>(search));
    if (found == std::string::npos) break;
    interpreter.spend_text(16 + to.size());
    out.add(text, at, static_cast<int64_t>(found));
    out.add(to);
    if (out.size() > interpreter.limits().output_bytes) fault("a text too long after replace");
    at = static_cast<int64_t>(found) + from.size();
    search = at;
    if (from.size() > 0) continue;
    if (at >= text.size()) break;
    next_code_point(text.bytes, search);
  }
  out.add(text, at, text.size());
  return out.take();
}

MarkedText joined(Interpreter& interpreter, const MarkedText& separator,
                  const std::vector<MarkedText>& parts) {
  int64_t size = 0;
  for (const MarkedText& part : parts) size += part.size() + separator.size();
  interpreter.spend_text(size);
  TextBuilder out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i) out.add(separator);
    out.add(parts[i]);
  }
  return out.take();
}

std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends) {
  std::vector<MarkedText> lines;
  int64_t begin = 0;
  for (int64_t offset = 0; offset < text.size();) {
    const int64_t end = offset;
    const uint32_t c = next_code_point(text.bytes, offset);
    const bool breaks =
        (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!breaks) continue;
    if (c == '\r' && offset < text.size() && text.bytes[offset] == '\n') ++offset;
    lines.push_back(text.slice(begin, keep_ends ? offset : end));
    begin = offset;
  }
  if (begin < text.size()) lines.push_back(text.slice(begin, text.size()));
  return lines;
}

MarkedText padded(Interpreter& interpreter, const MarkedText& text, int64_t width,
                  const MarkedText& fill, Padding where) {
  const int64_t margin = width - count_characters(text.bytes);
  if (margin <= 0) return text;
  if (margin > interpreter.limits().output_bytes / std::max<int64_t>(fill.size(), 1))
    fault(std::string("a text too long to ") + (where == Padding::around ? "center" : "justify"));
  interpreter.spend(margin);
  const int64_t left = where == Padding::before   ? margin
                       : where == Padding::behind ? 0
                                                  : margin / 2 + (margin & width & 1);
  TextBuilder out;
  for (int64_t i = 0; i < left; ++i) out.add(fill);
  out.add(text);
  for (int64_t i = left; i < margin; ++i) out.add(fill);
  return out.take();
}

}  // namespace forge::jinja
