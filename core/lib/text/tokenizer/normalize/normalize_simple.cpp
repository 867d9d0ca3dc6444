// The small normalizers: Strip, StripAccents, Replace, Prepend, Nmt, ByteLevel.
#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/normalize/normalizers.h"
#include "core/lib/text/tokenizer/regex.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(AlignedText& text) const override {
    size_t first = 0, last = text.text.size();
    for (size_t at = 0; left_ && at < text.text.size(); first = at) {
      if (!(classes_of(next_char(text.text, at)) & kSpace)) break;
    }
    while (right_ && last > first) {
      size_t begin = last;
      do --begin;
      while (begin > first && (static_cast<unsigned char>(text.text[begin]) & 0xC0) == 0x80);
      size_t at = begin;
      if (!(classes_of(next_char(text.text, at)) & kSpace)) break;
      last = begin;
    }
    text.text = text.text.substr(first, last - first);
    text.origin = std::vector<Origin>(text.origin.begin() + static_cast<int64_t>(first),
                                      text.origin.begin() + static_cast<int64_t>(last));
  }

 private:
  bool left_, right_;
};

class StripAccents : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    text.keep_if([](uint32_t code) { return !(classes_of(code) & kCombining); });
  }
  bool leaves(std::string_view text) const override { return all_ascii(text); }
};

class Replace : public Normalizer {
 public:
  Replace(Regex regex, std::string content) : regex_(std::move(regex)), content_(std::move(content)) {}
  // The replacement is mapped to the last replaced byte.
  void apply(AlignedText& text) const override {
    AlignedText next{.growth = text.growth};
    size_t last = 0;
    const auto copy = [&](size_t end) {
      next.text.append(text.text, last, end - last);
      next.origin.insert(next.origin.end(), text.origin.begin() + static_cast<int64_t>(last),
                         text.origin.begin() + static_cast<int64_t>(end));
      last = end;
    };
    regex_.each_match(text.text, [&](size_t begin, size_t end) {
      copy(begin);
      next.require(next.text.size() + content_.size());
      next.text += content_;
      next.origin.resize(next.text.size(), end > 0 ? text.origin[end - 1] : Origin{});
      last = end;
    });
    copy(text.text.size());
    text = std::move(next);
  }
  bool leaves(std::string_view text) const override {
    bool found = false;
    regex_.each_match(text, [&](size_t, size_t) { found = true; });
    return !found;
  }

 private:
  Regex regex_;
  std::string content_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(AlignedText& text) const override { text.prepend(prefix_); }

 private:
  std::string prefix_;
};

// SentencePiece's "nmt" rules: control characters are removed, odd spaces become spaces.
class Nmt : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    text.keep_if([](uint32_t c) {
      return !((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
               c == 0x9F);
    });
    text.map([](uint32_t c) -> uint32_t {
      const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                         c == 0xFEFF || c == 0xFFFD;
      return space ? ' ' : c;
    });
  }
};

class ByteLevel : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    AlignedText mapped{.growth = text.growth};
    for (size_t at = 0; at < text.text.size(); ++at) {
      append_utf8(mapped.text, byte_to_alphabet(static_cast<unsigned char>(text.text[at])));
      mapped.origin.resize(mapped.text.size(), text.origin[at]);
    }
    text = std::move(mapped);
  }
};

}  // namespace

std::unique_ptr<Normalizer> make_simple_normalizer(const std::string& type, const Json& spec,
                                                   const std::string& where) {
  if (type == "Strip") {
    return std::make_unique<Strip>(bool_member(spec, "strip_left", where, true),
                                   bool_member(spec, "strip_right", where, true));
  }
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "Prepend") return std::make_unique<Prepend>(string_member(spec, "prepend", where));
  if (type == "Nmt") return std::make_unique<Nmt>();
  if (type == "ByteLevel") return std::make_unique<ByteLevel>();
  const PatternField pattern = pattern_member(spec, where);
  return std::make_unique<Replace>(
      pattern.is_regex ? Regex(pattern.text, where) : Regex::literal(pattern.text, where),
      string_member(spec, "content", where));
}

}  // namespace forge::text
