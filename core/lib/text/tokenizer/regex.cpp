#include "core/lib/text/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

#include "core/lib/base/format.h"
#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
struct Regex::Code {
  pcre2_code* code = nullptr;
  std::string where;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(const std::string& pattern, const std::string& where) {
  const std::string translated = translate_pattern(pattern, where);
  auto code = std::make_shared<Code>();
  code->where = where;
  int error = 0;
  size_t offset = 0;
  // Oniguruma's ^ and $ match at every line.
  code->code = pcre2_compile(
      reinterpret_cast<const unsigned char*>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT, &error,
      &offset, nullptr);
  if (code->code == nullptr)
    throw file_fault(where, "the regular expression {} does not compile: {} at byte {}", pattern,
                     pcre_message(error), offset);
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);  // if it fails, the interpreter gives the same matches
  code_ = std::move(code);
}

Regex Regex::literal(const std::string& literal, const std::string& where) {
  std::string pattern;
  for (const char c : literal) {
    const bool plain = static_cast<unsigned char>(c) >= 0x80 || isalnum(static_cast<unsigned char>(c)) ||
                       c == ' ' || static_cast<unsigned char>(c) < 0x20;
    if (!plain) pattern += '\\';
    pattern += c;
  }
  return Regex(pattern, where);
}

void Regex::give_up(std::string_view text, size_t from, const std::string& why) const {
  throw Error(ErrorKind::data, code_->where + ": the regular expression gave up at byte " +
                                   std::to_string(from) + " of a text of " + std::to_string(text.size()) +
                                   " bytes: " + why)
      .hint("the pattern needs too many steps on this text; shorten the text or simplify the pattern");
}

bool Regex::find(std::string_view text, size_t from, MatchPatience& patience, size_t* begin, size_t* end) const {
  const BoundedMatch match = bounded_match(code_->code, text, from, patience);
  if (!match.gave_up.empty()) give_up(text, match.from, match.gave_up);
  if (match.ranges.empty()) return false;
  *begin = match.ranges[0];
  *end = match.ranges[1];
  if (*end < *begin)
    throw file_fault(code_->where, "a match ends before it begins (\\K in a lookahead)");
  return true;
}

namespace {

constexpr size_t kPatternBytes = 100'000;

// Translates an Oniguruma pattern to PCRE2 syntax.
class Translator {
 public:
  Translator(const std::string& pattern, const std::string& where) : in_(pattern), where_(where) {}

  std::string run() {
    if (in_.size() > kPatternBytes) refuse("it is longer than " + std::to_string(kPatternBytes) + " bytes");
    while (at_ < in_.size()) {
      if (in_[at_] == '\\') {
        escape(false);
      } else if (in_[at_] == '[') {
        char_class();
      } else if (in_.compare(at_, 2, "(?") == 0) {
        group();
      } else {
        out_ += in_[at_++];
      }
    }
    return out_;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) {
    throw file_fault(where_, "forge does not read the regular expression {}: {}",
                     in_.substr(0, 200), why);
  }

  // Translates a group's options. (?m) is "dot matches newline" in Oniguruma and "^ at every line"
  // in PCRE2; (?s) does not exist in Oniguruma.
  void group() {
    out_ += "(?";
    at_ += 2;
    size_t end = at_;
    while (end < in_.size() && (isalpha(static_cast<unsigned char>(in_[end])) || in_[end] == '-')) ++end;
    if (end >= in_.size() || (in_[end] != ':' && in_[end] != ')') || end == at_) return;
    for (; at_ < end; ++at_) {
      const char flag = in_[at_];
      if (flag != 'i' && flag != 'm' && flag != 'x' && flag != '-')
        refuse(fmt::format("the option (?{}) means different things to different engines", flag));
      out_ += flag == 'm' ? 's' : flag;
    }
  }

  void char_class() {
    out_ += in_[at_++];
    if (at_ < in_.size() && in_[at_] == '^') out_ += in_[at_++];
    if (at_ < in_.size() && in_[at_] == ']') {
      out_ += "\\]";
      ++at_;
    }
    while (at_ < in_.size() && in_[at_] != ']') {
      if (in_[at_] == '\\') {
        escape(true);
      } else if (in_.compare(at_, 2, "[:") == 0 && in_.find(":]", at_) != std::string::npos) {
        const size_t end = in_.find(":]", at_) + 2;
        out_.append(in_, at_, end - at_);
        at_ = end;
      } else if (in_[at_] == '[') {
        refuse("a set inside a set is not supported");
      } else if (in_.compare(at_, 2, "&&") == 0) {
        refuse("the intersection && of sets is not supported");
      } else {
        out_ += in_[at_++];
      }
    }
    if (at_ >= in_.size()) refuse("a set [ is not closed");
    out_ += in_[at_++];
  }

  void escape(bool in_class) {
    if (at_ + 1 >= in_.size()) refuse("it ends with a backslash");
    const char kind = in_[at_ + 1];
    constexpr std::pair<char, uint32_t> kClasses[] = {
        {'s', kSpace}, {'d', kDigit}, {'w', kOnigWord}};
    for (const auto& [letter, bits] : kClasses)
      if ((kind | 32) == letter) return runs(bits, kind != letter, in_class);
    if (kind == 'p' || kind == 'P') return property(kind == 'P', in_class);
    if (kind == 'h') {
      out_ += in_class ? "0-9a-fA-F" : "[0-9a-fA-F]";
      at_ += 2;
      return;
    }
    if (kind == 'H') refuse("\\H is not supported; write [^0-9a-fA-F]");
    if (kind == 'u') return unicode_escape();
    if (std::string_view("yYXRNOKMCGgkQE").find(kind) != std::string_view::npos)
      refuse(std::string("\\") + kind + " is not supported");
    out_.append(in_, at_, 2);
    at_ += 2;
  }

  void unicode_escape() {
    const std::string digits = in_.substr(at_ + 2, 4);
    if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
      refuse("\\u needs four hexadecimal digits");
    out_ += "\\x{" + digits + "}";
    at_ += 6;
  }

  void property(bool negated, bool in_class) {
    const size_t end = in_.find('}', at_);
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || end == std::string::npos)
      refuse("\\p without {name}");
    std::string name = in_.substr(at_ + 3, end - at_ - 3);
    if (!name.empty() && name[0] == '^') {
      negated = !negated;
      name.erase(0, 1);
    }
    static constexpr std::pair<std::string_view, uint32_t> kKnown[] = {
        {"L", kLetter},    {"N", kNumber}, {"P", kPunctuation}, {"S", kSymbol},
        {"M", kMark},      {"Lu", kUpper}, {"Ll", kLower},      {"Lt", kTitle},
        {"Lm", kModifier}, {"Han", kHan},  {"Nd", kDigit}};
    for (const auto& [known, bits] : kKnown)
      if (name == known) {
        at_ = end - 1;
        return runs(bits, negated, in_class);
      }
    if (name == "Lo") {
      at_ = end - 1;
      return runs_where(
          [](uint32_t b) { return (b & kLetter) && !(b & (kUpper | kLower | kTitle | kModifier)); }, negated,
          in_class);
    }
    static constexpr std::string_view kOthers[] = {
        "Mn",       "Mc",     "Me",   "Nl",     "No",     "Pc",         "Pd",      "Ps",       "Pe",
        "Pi",       "Pf",     "Po",   "Sm",     "Sc",     "Sk",         "So",      "Z",        "Zs",
        "Zl",       "Zp",     "C",    "Cc",     "Cf",     "Latin",      "Greek",   "Cyrillic", "Hiragana",
        "Katakana", "Hangul", "Thai", "Arabic", "Hebrew", "Devanagari", "Bopomofo"};
    if (std::ranges::find(kOthers, name) == std::end(kOthers))
      refuse("the property \\p{" + name + "} is not known");
    out_ += (negated ? "\\P{" : "\\p{") + name + "}";
    at_ = end + 1;
  }

  void runs(uint32_t bits, bool negated, bool in_class) {
    runs_where([bits](uint32_t b) { return (b & bits) != 0; }, negated, in_class);
  }

  // Writes a class as ranges; consumes two bytes of input.
  template <class Member>
  void runs_where(Member member, bool negated, bool in_class) {
    if (!in_class) out_ += '[';
    const std::span<const ClassRun> run = class_runs();
    for (size_t k = 0; k < run.size();) {
      if (member(run[k].bits) == negated) {
        ++k;
        continue;
      }
      const uint32_t first = run[k].first;
      while (k < run.size() && member(run[k].bits) != negated) ++k;
      uint32_t last = (k < run.size() ? run[k].first : 0x110000) - 1;
      // Surrogates are no characters; PCRE2 refuses to name them.
      if (first < 0xD800 && last >= 0xDFFF) {
        out_ += fmt::format("\\x{{{:x}}}-\\x{{d7ff}}", first);
        if (last >= 0xE000) out_ += fmt::format("\\x{{e000}}-\\x{{{:x}}}", last);
        continue;
      }
      if (first >= 0xD800 && last <= 0xDFFF) continue;
      const uint32_t low = first >= 0xD800 && first <= 0xDFFF ? 0xE000 : first;
      if (last >= 0xD800 && last <= 0xDFFF) last = 0xD7FF;
      out_ +=
          low == last ? fmt::format("\\x{{{:x}}}", low) : fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", low, last);
    }
    if (!in_class) out_ += ']';
    at_ += 2;
  }

  const std::string& in_;
  const std::string& where_;
  std::string out_;
  size_t at_ = 0;
};

}  // namespace

std::string translate_pattern(const std::string& pattern, const std::string& where) {
  return Translator(pattern, where).run();
}

}  // namespace forge::text
