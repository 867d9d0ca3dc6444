#include "core/lib/text/tokenizer/pre/pre_tokenizers.h"

#include <algorithm>

#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/regex.h"
#include "core/lib/text/tokenizer/scanner.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

// One of the matches that cover the whole text, and whether it is a separator. cut() turns them
// into parts.
struct Match {
  int32_t begin;
  int32_t end;
  bool separator;
};

void cut(const std::vector<Match>& matches, SplitBehavior behavior, std::vector<Piece>& parts) {
  const size_t first = parts.size();
  bool previous = false;
  const auto joins_previous = [&](bool separator) {
    if (behavior == SplitBehavior::contiguous) return separator == previous;
    if (behavior == SplitBehavior::merged_with_previous) return separator && !previous;
    return behavior == SplitBehavior::merged_with_next && previous && !separator;
  };
  for (const Match& match : matches) {
    if (behavior == SplitBehavior::removed && match.separator) continue;
    if (joins_previous(match.separator) && parts.size() > first) {
      parts.back().end = match.end;
    } else {
      parts.push_back({match.begin, match.end, -1});
    }
    previous = match.separator;
  }
}

// Cuts at the matches that each_match(text, on_match) finds; inverted, at what is between them.
template <class EachMatch>
PreTokenizer cut_at(EachMatch each_match, SplitBehavior behavior, bool invert) {
  return [=](WorkText& work) {
    std::vector<Match> matches;
    work.split([&](std::string_view text, std::vector<Piece>& parts) {
      matches.clear();
      size_t last = 0;
      const auto add = [&](size_t begin, size_t end, bool separator) {
        matches.push_back({static_cast<int32_t>(begin), static_cast<int32_t>(end), separator});
      };
      each_match(text, [&](size_t begin, size_t end) {
        if (last != begin) add(last, begin, invert);
        add(begin, end, !invert);
        last = end;
      });
      if (last != text.size()) add(last, text.size(), invert);
      cut(matches, behavior, parts);
    });
  };
}

bool lacks_space(const WorkText& work) {
  return std::ranges::any_of(work.pieces, [&](const Piece& piece) {
    return piece.token < 0 && !work.text_of(piece).starts_with(' ');
  });
}

PreTokenizer sequence(const std::string&, const Json& spec, const std::string& where,
                      bool raw_bytes) {
  std::vector<PreTokenizer> steps;
  const Json& list = array_member(spec, "pretokenizers", where);
  for (size_t k = 0; k < list.size(); ++k) {
    steps.push_back(make_pre_tokenizer(list[k], where + ".pretokenizers[" + std::to_string(k) + "]",
                                       raw_bytes && k + 1 == list.size()));
  }
  return one_after_another(std::move(steps));
}

PreTokenizer byte_level(const std::string&, const Json& spec, const std::string& where,
                        bool raw_bytes) {
  return make_byte_level(bool_member(spec, "add_prefix_space", where, true),
                         bool_member(spec, "use_regex", where, true), raw_bytes);
}

PreTokenizer split(const std::string&, const Json& spec, const std::string& where, bool) {
  const PatternField pattern = pattern_member(spec, where);
  return make_split(pattern.text, pattern.is_regex,
                    split_behavior_of(string_member(spec, "behavior", where), where),
                    bool_member(spec, "invert", where, false), where);
}

// Spaces become a visible character (▁), one may be put in front, and words begin at it.
PreTokenizer metaspace(const std::string&, const Json& spec, const std::string& where, bool) {
  const std::string scheme = string_member(spec, "prepend_scheme", where, "always");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    throw file_fault(where, "prepend_scheme: expected always, first or never, found \"{}\"",
                     scheme);
  if (!bool_member(spec, "add_prefix_space", where, true) && scheme != "never")
    throw file_fault(where, "add_prefix_space: false contradicts prepend_scheme: {}", scheme);
  const bool splits = bool_member(spec, "split", where, true);
  const uint32_t mark = character_member(spec, "replacement", where);
  const std::string prefix = utf8_of(mark);
  const auto replace = [mark, prefix, scheme](AlignedText& text) {
    text.map([mark](uint32_t code) { return code == ' ' ? mark : code; });
    if (text.text.empty() || text.text.starts_with(prefix)) return;
    const bool at_start = text.origin.front().begin == 0;
    if (scheme == "always" || (scheme == "first" && at_start)) text.prepend(prefix);
  };
  const PreTokenizer split =
      split_at([mark](uint32_t code) { return code == mark; }, SplitBehavior::merged_with_next);
  return [replace, splits, split](WorkText& work) {
    work.rewrite(replace);
    if (splits) split(work);
  };
}

using Maker = PreTokenizer (*)(const std::string& type, const Json& spec, const std::string& where,
                               bool raw_bytes);
constexpr Maker characters = make_character_splitter;

constexpr std::pair<const char*, Maker> kPreTokenizers[] = {
    {"BertPreTokenizer", characters}, {"ByteLevel", byte_level},       {"CharDelimiterSplit", characters},
    {"Digits", characters},           {"FixedLength", characters},     {"Metaspace", metaspace},
    {"Punctuation", characters},      {"Sequence", sequence},          {"Split", split},
    {"Whitespace", characters},       {"WhitespaceSplit", characters},
};

}  // namespace

PreTokenizer make_pre_tokenizer(const Json& spec, const std::string& where, bool raw_bytes) {
  const std::string type = string_member(spec, "type", where);
  return maker_of(kPreTokenizers, type, "pre-tokenizer", where)(type, spec, where, raw_bytes);
}

PreTokenizer make_byte_level(bool add_prefix_space, bool use_regex, bool raw_bytes) {
  return [=](WorkText& work) {
    if (add_prefix_space && lacks_space(work)) {
      work.rewrite([](AlignedText& text) {
        if (!text.text.empty() && text.text[0] != ' ') text.prepend(" ");
      });
    }
    if (use_regex) {
      work.split([](std::string_view text, std::vector<Piece>& parts) { scan(Scanner::gpt2, text, parts); });
    }
    if (!raw_bytes) work.rewrite(&AlignedText::to_alphabet);
  };
}

// The patterns of the well-known tokenizers have hand-written scanners.
PreTokenizer make_split(const std::string& pattern, bool is_regex, SplitBehavior behavior,
                        bool invert, const std::string& where) {
  // A pattern whose matches cover every text, with a behavior that keeps each match as one part.
  const bool keeps_matches =
      (behavior == SplitBehavior::isolated) || (behavior == SplitBehavior::removed && invert);
  if (const auto scanner = scanner_of(pattern); is_regex && keeps_matches && scanner) {
    return [scanner](WorkText& work) {
      work.split(
          [&](std::string_view text, std::vector<Piece>& parts) { scan(*scanner, text, parts); });
    };
  }
  const Regex regex = is_regex ? Regex(pattern, where) : Regex::literal(pattern, where);
  return cut_at([regex](std::string_view text, auto on_match) { regex.each_match(text, on_match); },
                behavior, invert);
}

PreTokenizer split_at(std::function<bool(uint32_t)> is_separator, SplitBehavior behavior) {
  const auto each = [is_separator = std::move(is_separator)](std::string_view text, auto on_match) {
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      if (is_separator(next_char(text, at))) on_match(begin, at);
    }
  };
  return cut_at(each, behavior, false);
}

PreTokenizer one_after_another(std::vector<PreTokenizer> steps) {
  return [steps = std::move(steps)](WorkText& work) {
    for (const PreTokenizer& step : steps) step(work);
  };
}

bool ends_byte_level(const Json& spec) {
  const Json* step = &spec;
  for (int depth = 0; depth < 64; ++depth) {
    const Json* type = find_member(*step, "type");
    if (type == nullptr || !type->is_string()) return false;
    if (*type == "ByteLevel") return true;
    const Json* list = find_member(*step, "pretokenizers");
    if (*type != "Sequence" || list == nullptr || !list->is_array() || list->empty()) return false;
    step = &list->back();
  }
  return false;
}

SplitBehavior split_behavior_of(const std::string& name, const std::string& where) {
  constexpr std::pair<const char*, SplitBehavior> kNames[] = {
      {"Removed", SplitBehavior::removed},
      {"Isolated", SplitBehavior::isolated},
      {"MergedWithPrevious", SplitBehavior::merged_with_previous},
      {"MergedWithNext", SplitBehavior::merged_with_next},
      {"Contiguous", SplitBehavior::contiguous}};
  for (const auto& [known, behavior] : kNames) {
    if (name == known) return behavior;
  }
  throw file_fault(where, "unknown split behavior \"{}\"", name)
      .hint("known: Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

}  // namespace forge::text
