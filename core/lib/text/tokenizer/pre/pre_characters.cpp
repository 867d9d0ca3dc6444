// The pre-tokenizers that look at one character at a time: Digits, Punctuation, Whitespace,
// WhitespaceSplit, CharDelimiterSplit, BertPreTokenizer, FixedLength.
#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/pre/pre_tokenizers.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

// Makes every number character a piece of its own. SmolLM2 uses it, so it does not go through
// matches.
void split_digits(WorkText& work) {
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

// Keeps \w+|[^\w\s]+ and drops the rest.
void keep_words(WorkText& work) {
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

void split_by_length(WorkText& work, int64_t length) {
  work.split([length](std::string_view text, std::vector<Piece>& parts) {
    for (size_t at = 0; at < text.size();) {
      const auto begin = static_cast<int32_t>(at);
      for (int64_t n = 0; n < length && at < text.size(); ++n) next_char(text, at);
      parts.push_back({begin, static_cast<int32_t>(at), -1});
    }
  });
}

}  // namespace

PreTokenizer make_character_splitter(const std::string& type, const Json& spec,
                                     const std::string& where, bool) {
  const auto has = [](uint32_t bits) {
    return [bits](uint32_t code) { return (classes_of(code) & bits) != 0; };
  };
  if (type == "BertPreTokenizer")
    return one_after_another({split_at(has(kSpace), SplitBehavior::removed),
                              split_at(has(kBertPunctuation), SplitBehavior::isolated)});
  if (type == "Whitespace") return keep_words;
  if (type == "WhitespaceSplit") return split_at(has(kSpace), SplitBehavior::removed);
  if (type == "Digits") {
    if (bool_member(spec, "individual_digits", where, false)) return split_digits;
    return split_at(has(kNumeric), SplitBehavior::contiguous);
  }
  if (type == "Punctuation")
    return split_at(has(kBertPunctuation),
                    split_behavior_of(string_member(spec, "behavior", where, "Isolated"), where));
  if (type == "CharDelimiterSplit") {
    const uint32_t delimiter = character_member(spec, "delimiter", where);
    return split_at([delimiter](uint32_t code) { return code == delimiter; },
                    SplitBehavior::removed);
  }
  const int64_t length = int_member(spec, "length", where, 5);
  if (length < 1) throw file_fault(where, "length: expected at least 1");
  return [length](WorkText& work) { split_by_length(work, length); };
}

}  // namespace forge::text
