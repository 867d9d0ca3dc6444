#include "core/lib/text/tokenizer/pre/pre_tokenizers.h"

#include <algorithm>

#include "core/lib/base/text.h"
#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<PreTokenizer>> steps) : steps_(std::move(steps)) {}
  void apply(WorkText& work) const override {
    for (const auto& step : steps_) step->apply(work);
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

using Maker = std::unique_ptr<PreTokenizer> (*)(const std::string& type, const Json& spec,
                                                const std::string& where, bool raw_bytes);

std::unique_ptr<PreTokenizer> sequence(const std::string&, const Json& spec, const std::string& where,
                                       bool raw_bytes) {
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  const Json& list = array_member(spec, "pretokenizers", where);
  for (size_t k = 0; k < list.size(); ++k) {
    steps.push_back(make_pre_tokenizer(list[k], where + ".pretokenizers[" + std::to_string(k) + "]",
                                       raw_bytes && k + 1 == list.size()));
  }
  return std::make_unique<Sequence>(std::move(steps));
}

std::unique_ptr<PreTokenizer> byte_level(const std::string&, const Json& spec, const std::string& where,
                                         bool raw_bytes) {
  return make_byte_level(bool_member(spec, "add_prefix_space", where, true),
                         bool_member(spec, "use_regex", where, true), raw_bytes);
}

std::unique_ptr<PreTokenizer> split(const std::string&, const Json& spec, const std::string& where, bool) {
  const PatternField pattern = pattern_member(spec, where);
  return make_split(pattern.text, pattern.is_regex,
                    split_behavior_of(string_member(spec, "behavior", where), where),
                    bool_member(spec, "invert", where, false), where);
}

std::unique_ptr<PreTokenizer> metaspace(const std::string&, const Json& spec, const std::string& where,
                                        bool) {
  return make_metaspace(spec, where);
}

std::unique_ptr<PreTokenizer> characters(const std::string& type, const Json& spec, const std::string& where,
                                         bool) {
  return make_character_splitter(type, spec, where);
}

struct Entry {
  const char* type;
  Maker make;
};
constexpr Entry kPreTokenizers[] = {
    {"BertPreTokenizer", characters}, {"ByteLevel", byte_level},       {"CharDelimiterSplit", characters},
    {"Digits", characters},           {"FixedLength", characters},     {"Metaspace", metaspace},
    {"Punctuation", characters},      {"Sequence", sequence},          {"Split", split},
    {"Whitespace", characters},       {"WhitespaceSplit", characters},
};

}  // namespace

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const Json& spec, const std::string& where, bool raw_bytes) {
  const std::string type = string_member(spec, "type", where);
  std::vector<std::string> names;
  for (const Entry& entry : kPreTokenizers) {
    if (type == entry.type) return entry.make(type, spec, where, raw_bytes);
    names.push_back(entry.type);
  }
  throw Error(ErrorKind::environment,
              where + ": forge has no pre-tokenizer \"" + type + "\"" + did_you_mean(type, names))
      .hint("known: " + join(names, ", "));
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
  throw Error(ErrorKind::environment, where + ": unknown split behavior \"" + name + "\"")
      .hint("known: Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

void match_characters(std::string_view text, const std::function<bool(uint32_t)>& is_separator,
                      std::vector<Match>& matches) {
  size_t last = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    if (!is_separator(next_char(text, at))) continue;
    if (last < begin) matches.push_back({static_cast<int32_t>(last), static_cast<int32_t>(begin), false});
    matches.push_back({static_cast<int32_t>(begin), static_cast<int32_t>(at), true});
    last = at;
  }
  if (last < text.size())
    matches.push_back({static_cast<int32_t>(last), static_cast<int32_t>(text.size()), false});
}

void cut(const std::vector<Match>& matches, SplitBehavior behavior, std::vector<Piece>& parts) {
  const size_t first = parts.size();
  bool previous = false;
  // Grows the last part if `join`, else starts a new one.
  const auto add = [&](const Match& match, bool join) {
    if (join && parts.size() > first) {
      parts.back().begin = std::min(parts.back().begin, match.begin);
      parts.back().end = std::max(parts.back().end, match.end);
    } else {
      parts.push_back({match.begin, match.end, -1});
    }
    previous = match.separator;
  };
  switch (behavior) {
    case SplitBehavior::removed:
      for (const Match& match : matches) {
        if (!match.separator) add(match, false);
      }
      break;
    case SplitBehavior::isolated:
      for (const Match& match : matches) add(match, false);
      break;
    case SplitBehavior::contiguous:
      for (const Match& match : matches) add(match, match.separator == previous);
      break;
    case SplitBehavior::merged_with_previous:
      for (const Match& match : matches) add(match, match.separator && !previous);
      break;
    case SplitBehavior::merged_with_next:
      for (size_t k = matches.size(); k-- > 0;) add(matches[k], matches[k].separator && !previous);
      std::reverse(parts.begin() + static_cast<int64_t>(first), parts.end());
      break;
  }
}

}  // namespace forge::text
