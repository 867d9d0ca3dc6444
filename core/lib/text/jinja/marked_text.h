#pragma once
// Text that stores the origin of each byte: the template, the conversation, a {% generation %}
// block.
//
//   TextBuilder out;
//   out.add("<|im_start|>", kFromTemplate);
//   out.add(message, 0, 5);              // a slice keeps its marks
//   MarkedText text = out.take();
//
// Marks travel through every string operation of the interpreter, so that the tokenizer can refuse
// to read control tokens in text that a user wrote. Offsets are bytes; the code point helpers
// translate Python's indices.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/lib/base/text.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::jinja {

using Mark = uint8_t;
constexpr Mark kFromTemplate = 0;
constexpr Mark kFromData = 1;   // bit: the byte comes from messages, tools or other data
constexpr Mark kGenerated = 2;  // bit: the byte was printed inside {% generation %}

struct MarkedRun {
  int64_t end = 0;  // byte offset one past the run
  Mark mark = kFromTemplate;
};

struct MarkedText {
  std::string bytes;
  std::vector<MarkedRun> runs;  // ascending ends, the last one bytes.size(); empty for the empty text
  bool safe = false;            // jinja2's Markup: what `+` joins to it is HTML-escaped

  MarkedText() = default;
  MarkedText(std::string text, Mark mark);
  int64_t size() const { return static_cast<int64_t>(bytes.size()); }
  Mark mark_at(int64_t offset) const;
  MarkedText slice(int64_t begin, int64_t end) const;
};

class TextBuilder {
 public:
  void add(std::string_view bytes, Mark mark);
  void add(const MarkedText& text) { add(text, 0, text.size()); }
  void add(const MarkedText& text, int64_t begin, int64_t end);
  // Sets `bits` on everything from `begin` to the end.
  void mark_from(int64_t begin, Mark bits);
  int64_t size() const { return text_.size(); }
  MarkedText take();

 private:
  MarkedText text_;
};

// --- code points of valid UTF-8, which count_characters (core/lib/base/text.h) counts ---
// Returns the code point at `offset`, and moves `offset` past it. A broken byte counts as one code
// point of its own.
uint32_t next_code_point(std::string_view text, int64_t& offset);
// Returns the byte offset of code point `index`, at most text.size().
int64_t byte_offset(std::string_view text, int64_t index);
using text::append_utf8;
using text::utf8_of;

// Returns the text with mapping(code_point) in place of each character; marks stay.
template <class Mapping>
MarkedText mapped(const MarkedText& text, Mapping mapping) {
  TextBuilder out;
  int64_t offset = 0;
  for (const MarkedRun& run : text.runs) {
    std::string piece;
    while (offset < run.end) piece += mapping(next_code_point(text.bytes, offset));
    out.add(piece, run.mark);
  }
  return out.take();
}

// Python's str.isspace, str.isprintable and friends for one code point.
bool is_space(uint32_t code_point);
bool is_printable(uint32_t code_point);
bool is_alpha(uint32_t code_point);
bool is_digit(uint32_t code_point);
bool is_numeric(uint32_t code_point);
bool is_upper(uint32_t code_point);
bool is_lower(uint32_t code_point);
// Return the full case mappings, so 'ß' becomes 'SS'.
std::string to_upper(uint32_t code_point);
std::string to_lower(uint32_t code_point);
std::string to_title(uint32_t code_point);

}  // namespace forge::jinja
