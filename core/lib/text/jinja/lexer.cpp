#include "core/lib/text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/lib/text/jinja/marked_text.h"

namespace forge::jinja {
namespace {

// Returns the source with "\r\n" and "\r" as "\n", and without one newline at the end.
std::string normalised(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r')
      text += source[i];
    else if (i + 1 == source.size() || source[i + 1] != '\n')
      text += '\n';
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_decimal(char c) { return c >= '0' && c <= '9'; }
bool is_name_part(char c) { return is_name_start(c) || is_decimal(c); }

constexpr std::array<std::string_view, 25> kSymbols{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                    "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                    ">",  "<",  "=",  ".",  ":",  "|",  ","};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(normalised(source)) {}

  std::vector<Token> run() {
    while (at_ < size()) {
      const size_t tag = next_tag();
      if (tag == std::string::npos) {
        data(std::string_view(text_).substr(at_));
        at_ = size();
        break;
      }
      open(tag);
    }
    push(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  size_t size() const { return text_.size(); }
  std::string_view rest() const { return std::string_view(text_).substr(at_); }
  bool looking_at(std::string_view word) const { return rest().substr(0, word.size()) == word; }
  [[noreturn]] void fail(const std::string& message) const { throw SyntaxFault{message, line_}; }

  void push(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  // Moves to `position` and counts the lines on the way.
  void advance(size_t position) {
    line_ += static_cast<int>(std::count(text_.begin() + at_, text_.begin() + position, '\n'));
    at_ = position;
  }
  void data(std::string_view text) {
    if (!text.empty()) push(TokenKind::data, std::string(text));
  }

  size_t next_tag() const {
    for (size_t i = text_.find('{', at_); i != std::string::npos && i + 1 < size();
         i = text_.find('{', i + 1))
      if (text_[i + 1] == '{' || text_[i + 1] == '%' || text_[i + 1] == '#') return i;
    return std::string::npos;
  }

  void skip_space() {
    size_t position = at_;
    while (position < size()) {
      int64_t next = static_cast<int64_t>(position);
      if (!is_space(next_code_point(text_, next))) break;
      position = static_cast<size_t>(next);
    }
    advance(position);
  }

  static size_t length_without_trailing_space(std::string_view text) {
    size_t end = text.size();
    while (end > 0) {
      const size_t begin = text::char_before(text, end);
      int64_t offset = static_cast<int64_t>(begin);
      if (!is_space(next_code_point(text, offset))) break;
      end = begin;
    }
    return end;
  }

  // Returns the text before a tag, after applying the tag's sign and lstrip_blocks.
  std::string_view text_before(size_t tag, char sign) const {
    std::string_view text = std::string_view(text_).substr(at_, tag - at_);
    const size_t kept = length_without_trailing_space(text);
    if (sign == '-') return text.substr(0, kept);
    if (sign == '+' || text_[tag + 1] == '{') return text;
    const size_t line_start = text.rfind('\n') + 1;  // npos + 1 == 0
    if (line_start == 0 && !line_starting_) return text;
    return kept <= line_start ? text.substr(0, line_start) : text;
  }

  char sign_at(size_t position) const {
    return position < size() && (text_[position] == '-' || text_[position] == '+') ? text_[position] : 0;
  }

  void open(size_t tag) {
    const char sign = sign_at(tag + 2);
    const std::string_view before = text_before(tag, sign);
    data(before);
    advance(tag);
    const char kind = text_[tag + 1];
    if (kind == '#') return comment(tag + 2 + (sign != 0));
    advance(tag + 2 + (sign != 0));
    if (kind == '%' && raw()) return;
    push(kind == '{' ? TokenKind::variable_begin : TokenKind::block_begin, "");
    inside(kind == '{');
  }

  // Skips text after an end sign: "-" eats whitespace, "+" nothing; otherwise a block or comment
  // eats one newline.
  void after_end(char sign, bool trims_newline) {
    if (sign == '-')
      skip_space();
    else if (sign != '+' && trims_newline && looking_at("\n"))
      advance(at_ + 1);
    line_starting_ = at_ > 0 && text_[at_ - 1] == '\n';
  }

  void comment(size_t begin) {
    const size_t end = text_.find("#}", begin);
    if (end == std::string::npos) fail("Missing end of comment tag");
    const char sign = end > begin ? sign_at(end - 1) : 0;
    advance(end + 2);
    after_end(sign, true);
  }

  size_t skip_blanks(size_t position) const {
    while (position < size() && (text_[position] == ' ' || (text_[position] >= 9 && text_[position] <= 13)))
      ++position;
    return position;
  }

  // Returns the offset after `{%- word -%}` if its word begins at or after `position`, and sets its
  // end sign; npos if there is no such tag.
  size_t tag_end(size_t position, std::string_view word, char& sign) const {
    position = skip_blanks(position);
    if (std::string_view(text_).substr(position, word.size()) != word) return std::string::npos;
    position = skip_blanks(position + word.size());
    sign = sign_at(position);
    if (sign) ++position;
    return std::string_view(text_).substr(position, 2) == "%}" ? position + 2 : std::string::npos;
  }

  // Reads `{% raw %}…{% endraw %}` as data without change.
  bool raw() {
    char sign = 0;
    const size_t body = tag_end(at_, "raw", sign);
    if (body == std::string::npos || sign == '+') return false;
    advance(body);
    after_end(sign, false);
    if (at_ >= size()) return true;
    for (size_t tag = text_.find("{%", at_); tag != std::string::npos; tag = text_.find("{%", tag + 1)) {
      const char begin_sign = sign_at(tag + 2);
      const size_t end = tag_end(tag + 2 + (begin_sign != 0), "endraw", sign);
      if (end == std::string::npos) continue;
      data(text_before(tag, begin_sign));
      advance(end);
      after_end(sign, true);
      return true;
    }
    fail("Missing end of raw directive");
  }

  // If the tag ends here, moves past it and returns true.
  bool close(bool variable) {
    const char sign = variable && looking_at("+") ? 0 : sign_at(at_);
    const std::string_view mark = variable ? "}}" : "%}";
    if (rest().substr(sign != 0, 2) != mark) return false;
    push(variable ? TokenKind::variable_end : TokenKind::block_end, "");
    advance(at_ + 2 + (sign != 0));
    after_end(sign, !variable);
    return true;
  }

  void inside(bool variable) {
    std::string open;  // brackets that wait for their partner
    for (;;) {
      skip_space();
      if (at_ >= size())
        fail(variable ? "unexpected end of template, expected '}}'"
                      : "unexpected end of template, expected '%}'");
      if (open.empty() && close(variable)) return;
      const char c = text_[at_];
      if (is_decimal(c))
        number();
      else if (is_name_start(c))
        name();
      else if (c == '"' || c == '\'')
        string(c);
      else
        symbol(open);
    }
  }

  void name() {
    size_t end = at_;
    while (end < size() && is_name_part(text_[end])) ++end;
    push(TokenKind::name, text_.substr(at_, end - at_));
    advance(end);
  }

  size_t digits(size_t position) const {
    while (position < size() &&
           (is_decimal(text_[position]) ||
            (text_[position] == '_' && position + 1 < size() && is_decimal(text_[position + 1]))))
      ++position;
    return position;
  }

  void number() {
    size_t end = digits(at_);
    bool real = false;
    const bool after_dot = at_ > 0 && text_[at_ - 1] == '.';  // in `items.0.1` the digits are indices
    if (!after_dot) {
      if (end + 1 < size() && text_[end] == '.' && is_decimal(text_[end + 1]))
        end = digits(end + 1), real = true;
      if (end < size() && (text_[end] == 'e' || text_[end] == 'E')) {
        const size_t sign = end + 1 + (end + 1 < size() && (text_[end + 1] == '+' || text_[end + 1] == '-'));
        if (sign < size() && is_decimal(text_[sign])) end = digits(sign), real = true;
      }
    }
    std::string text = text_.substr(at_, end - at_);
    if (!real && text == "0" && end < size() &&
        std::string_view("xXoObB").find(text_[end]) != std::string_view::npos) {
      const size_t first = ++end;
      while (end < size() && (is_name_part(text_[end]))) ++end;
      if (end == first) fail("a number without digits");
      text = text_.substr(at_, end - at_);
    }
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    push(real ? TokenKind::real : TokenKind::integer, text);
    advance(end);
  }

  uint32_t hexadecimal(size_t position, size_t count) const {
    const std::string digits = text_.substr(position, count);
    uint32_t value = 0;
    const auto [end, problem] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() < count || end != digits.data() + count)
      fail("a truncated \\x, \\u or \\U escape in a string");
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
      fail("an escape that is not a Unicode character");
    return value;
  }

  // Reads one escape of Python's unicode-escape codec. `i` starts at the backslash and ends after
  // the escape.
  void escape(std::string& out, size_t& i) const {
    static constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeanings = "\a\b\f\n\r\t\v\\'\"";
    const char c = text_[i + 1];
    i += 2;
    if (c == '\n') return;
    if (const size_t found = kLetters.find(c); found != std::string_view::npos) {
      out += kMeanings[found];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      append_utf8(out, hexadecimal(i, count));
      i += count;
    } else if (c >= '0' && c <= '7') {
      uint32_t value = static_cast<uint32_t>(c - '0');
      for (int n = 0; n < 2 && i < size() && text_[i] >= '0' && text_[i] <= '7'; ++n)
        value = value * 8 + (text_[i++] - '0');
      append_utf8(out, value);
    } else if (c == 'N') {
      fail("\\N{…} escapes are not supported");
    } else {
      out += '\\';
      out += c;
    }
  }

  void string(char quote) {
    std::string out;
    size_t i = at_ + 1;
    while (i < size() && text_[i] != quote) {
      if (text_[i] == '\\' && i + 1 < size())
        escape(out, i);
      else
        out += text_[i++];
    }
    if (i >= size()) fail("a string without its closing quote");
    push(TokenKind::string, std::move(out));
    advance(i + 1);
  }

  void symbol(std::string& open) {
    for (std::string_view candidate : kSymbols) {
      if (!looking_at(candidate)) continue;
      const char c = candidate[0];
      if (candidate.size() == 1 && (c == '(' || c == '[' || c == '{'))
        open += c == '(' ? ')' : c == '[' ? ']' : '}';
      if (candidate.size() == 1 && (c == ')' || c == ']' || c == '}')) {
        if (open.empty()) fail(std::string("unexpected '") + c + "'");
        if (open.back() != c) fail(std::string("unexpected '") + c + "', expected '" + open.back() + "'");
        open.pop_back();
      }
      push(TokenKind::symbol, std::string(candidate));
      return advance(at_ + candidate.size());
    }
    int64_t end = static_cast<int64_t>(at_);
    next_code_point(text_, end);
    fail("unexpected char '" + text_.substr(at_, end - at_) + "'");
  }

  std::string text_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace forge::jinja
