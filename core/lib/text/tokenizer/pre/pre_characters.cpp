// The pre-tokenizers that look at one character at a time: Digits, Punctuation, Whitespace,
// WhitespaceSplit, CharDelimiterSplit, BertPreTokenizer, FixedLength.
#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/pre/pre_tokenizers.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

using Predicate = std::function<bool(uint32_t)>;

class CharacterSplit : public PreTokenizer {
 public:
  CharacterSplit(Predicate is_separator, SplitBehavior behavior)
      : is_separator_(std::move(is_separator)), behavior_(behavior) {}
  void apply(WorkText& work) const override {
    std::vector<Match> matches;
    work.split([&](std::string_view text, std::vector<Piece>& parts) {
      matches.clear();
      match_characters(text, is_separator_, matches);
      cut(matches, behavior_, parts);
    });
  }

 private:
  Predicate is_separator_;
  SplitBehavior behavior_;
};

// Makes every number character a piece of its own. SmolLM2 uses it, so it does not go through
// matches.
class SingleDigits : public PreTokenizer {
 public:
  void apply(WorkText& work) const override {
    const ClassTable& table = class_table();
    work.split([&](std::string_view text, std::vector<Piece>& parts) {
      size_t last = 0;
      for (size_t at = 0; at < text.size();) {
        const auto lead = static_cast<unsigned char>(text[at]);
        if (lead < 0x80 && (lead < '0' || lead > '9')) {
          ++at;
          continue;
        }
        const size_t begin = at;
        if (!(table[next_char(text, at)] & kNumeric)) continue;
        if (last < begin) parts.push_back({static_cast<int32_t>(last), static_cast<int32_t>(begin), -1});
        parts.push_back({static_cast<int32_t>(begin), static_cast<int32_t>(at), -1});
        last = at;
      }
      if (last < text.size())
        parts.push_back({static_cast<int32_t>(last), static_cast<int32_t>(text.size()), -1});
    });
  }
};

// Keeps \w+|[^\w\s]+ and drops the rest.
class Whitespace : public PreTokenizer {
 public:
  void apply(WorkText& work) const override {
    work.split([](std::string_view text, std::vector<Piece>& parts) {
      uint32_t open = kSpace;  // the class of the part being grown; kSpace: none
      for (size_t at = 0; at < text.size();) {
        const auto begin = static_cast<int32_t>(at);
        const uint32_t bits = classes_of(next_char(text, at));
        const uint32_t kind = bits & kWord ? kWord : bits & kSpace ? kSpace : kPunctuation;
        if (kind != kSpace && kind == open) {
          parts.back().end = static_cast<int32_t>(at);
        } else if (kind != kSpace) {
          parts.push_back({begin, static_cast<int32_t>(at), -1});
        }
        open = kind;
      }
    });
  }
};

class FixedLength : public PreTokenizer {
 public:
  explicit FixedLength(int64_t length) : length_(length) {}
  void apply(WorkText& work) const override {
    work.split([this](std::string_view text, std::vector<Piece>& parts) {
      for (size_t at = 0; at < text.size();) {
        const auto begin = static_cast<int32_t>(at);
        for (int64_t n = 0; n < length_ && at < text.size(); ++n) next_char(text, at);
        parts.push_back({begin, static_cast<int32_t>(at), -1});
      }
    });
  }

 private:
  int64_t length_;
};

class Bert : public PreTokenizer {
 public:
  void apply(WorkText& work) const override {
    spaces_.apply(work);
    punctuation_.apply(work);
  }

 private:
  CharacterSplit spaces_{[](uint32_t code) { return (classes_of(code) & kSpace) != 0; },
                         SplitBehavior::removed};
  CharacterSplit punctuation_{[](uint32_t code) { return (classes_of(code) & kBertPunctuation) != 0; },
                              SplitBehavior::isolated};
};

}  // namespace

std::unique_ptr<PreTokenizer> make_character_splitter(const std::string& type, const Json& spec,
                                                      const std::string& where) {
  const auto has = [](uint32_t bits) {
    return [bits](uint32_t code) { return (classes_of(code) & bits) != 0; };
  };
  if (type == "BertPreTokenizer") return std::make_unique<Bert>();
  if (type == "Whitespace") return std::make_unique<Whitespace>();
  if (type == "WhitespaceSplit") return std::make_unique<CharacterSplit>(has(kSpace), SplitBehavior::removed);
  if (type == "Digits") {
    if (bool_member(spec, "individual_digits", where, false)) return std::make_unique<SingleDigits>();
    return std::make_unique<CharacterSplit>(has(kNumeric), SplitBehavior::contiguous);
  }
  if (type == "Punctuation") {
    return std::make_unique<CharacterSplit>(
        has(kBertPunctuation), split_behavior_of(string_member(spec, "behavior", where, "Isolated"), where));
  }
  if (type == "CharDelimiterSplit") {
    const uint32_t delimiter = character_member(spec, "delimiter", where);
    return std::make_unique<CharacterSplit>([delimiter](uint32_t code) { return code == delimiter; },
                                            SplitBehavior::removed);
  }
  const int64_t length = int_member(spec, "length", where, 5);
  if (length < 1) throw Error(ErrorKind::environment, where + ": length: expected at least 1");
  return std::make_unique<FixedLength>(length);
}

}  // namespace forge::text
