// Each word begins at `at`. The alternatives of the pattern are tried in its order, and the first
// that matches wins, as in the backtracking engine. Only three of them ever give back characters:
// \s+(?!\S) returns its last character unless the text ends, \s*[\r\n]+ returns to the last line
// break of the run, and an optional first character is given back if no letter follows it.
#include "core/lib/text/tokenizer/scanner.h"

#include <array>

#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const char* const kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

constexpr char kGpt2Short[] = R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr uint32_t kOther = kLetter | kNumber | kSpace;  // [^\s\p{L}\p{N}] has none of these bits

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text), table_(class_table()) {
    for (uint32_t code = 0; code < 128; ++code) ascii_[code] = static_cast<uint8_t>(table_[code] & kOther);
  }
  size_t size() const { return text_.size(); }
  char byte(size_t at) const { return at < text_.size() ? text_[at] : '\0'; }
  bool line_break(size_t at) const { return byte(at) == '\r' || byte(at) == '\n'; }
  // Returns the class of the character at `at`, and the position after it.
  uint32_t peek(size_t at, size_t* next) const {
    const auto lead = static_cast<unsigned char>(text_[at]);
    if (lead < 0x80) return *next = at + 1, ascii_[lead];
    *next = at;
    const uint32_t code = next_char(text_, *next);
    return table_[code] & kOther;
  }
  // Returns the position after the run of characters with (class & mask) == want.
  size_t run(size_t at, uint32_t mask, uint32_t want) const {
    for (size_t next; at < text_.size() && (peek(at, &next) & mask) == want; at = next) {
    }
    return at;
  }

 private:
  std::string_view text_;
  const ClassTable& table_;
  std::array<uint8_t, 128> ascii_;
};

// Returns the position after 's 't 're 've 'm 'll 'd at `at`, or `at` itself. Ignoring case, U+017F
// is an s too.
size_t contraction(const Reader& in, size_t at, bool any_case) {
  if (in.byte(at) != '\'') return at;
  const auto letter = [&](size_t k) -> char {
    const char c = in.byte(k);
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  };
  const char first = letter(at + 1), second = letter(at + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if ((first == 'r' || first == 'v') && second == 'e') return at + 3;
  if (first == 'l' && second == 'l') return at + 3;
  if (any_case && first == '\xC5' && in.byte(at + 2) == '\xBF') return at + 3;
  return at;
}

// Matches \s+(?!\S)|\s+ at a space.
size_t spaces(const Reader& in, size_t at) {
  size_t last = at, end = at, next = at;
  while (end < in.size() && (in.peek(end, &next) & kSpace)) {
    last = end;
    end = next;
  }
  return end == in.size() || last == at ? end : last;
}

size_t gpt2_word(const Reader& in, size_t at) {
  if (const size_t end = contraction(in, at, false); end > at) return end;
  size_t next = at;
  const size_t body = in.byte(at) == ' ' && at + 1 < in.size() ? at + 1 : at;
  uint32_t kind = in.peek(body, &next);
  if (kind & kSpace) return spaces(in, at);
  if (kind & kLetter) return in.run(next, kLetter, kLetter);
  if (kind & kNumber) return in.run(next, kNumber, kNumber);
  return in.run(next, kOther, 0);
}

size_t modern_word(const Reader& in, size_t at, int most_digits) {
  if (const size_t end = contraction(in, at, true); end > at) return end;
  size_t next = at, second = at;
  const uint32_t kind = in.peek(at, &next);
  if (kind & kLetter) return in.run(next, kLetter, kLetter);
  if (!(kind & kNumber) && !in.line_break(at) && next < in.size() && (in.peek(next, &second) & kLetter)) {
    return in.run(second, kLetter, kLetter);
  }
  if (kind & kNumber) {
    for (int digits = 1; digits < most_digits && next < in.size() && (in.peek(next, &second) & kNumber);
         ++digits) {
      next = second;
    }
    return next;
  }
  const size_t body = in.byte(at) == ' ' && at + 1 < in.size() ? at + 1 : at;
  if (in.peek(body, &next) == 0) {
    next = in.run(next, kOther, 0);
    while (in.line_break(next)) ++next;
    return next;
  }
  // Only whitespace is left here: \s*[\r\n]+ up to the last line break of the run, else
  // \s+(?!\S)|\s+.
  size_t line_end = at;
  for (size_t end = at; end < in.size() && (in.peek(end, &next) & kSpace); end = next) {
    if (in.line_break(end)) line_end = next;
  }
  return line_end > at ? line_end : spaces(in, at);
}

size_t word_end(Scanner scanner, const Reader& in, size_t at) {
  if (scanner == Scanner::gpt2) return gpt2_word(in, at);
  return modern_word(in, at, scanner == Scanner::llama3 ? 3 : 1);
}

}  // namespace

std::optional<Scanner> scanner_of(const std::string& pattern) {
  if (pattern == kGpt2Pattern || pattern == kGpt2Short) return Scanner::gpt2;
  if (pattern == kLlama3Pattern) return Scanner::llama3;
  if (pattern == kQwen2Pattern) return Scanner::qwen2;
  return std::nullopt;
}

void scan(Scanner scanner, std::string_view text, std::vector<Piece>& words) {
  const Reader in(text);
  for (size_t at = 0; at < text.size();) {
    const size_t end = word_end(scanner, in, at);
    words.push_back({static_cast<int32_t>(at), static_cast<int32_t>(end), -1});
    at = end;
  }
}

}  // namespace forge::text
