#include "core/lib/text/tokenizer/added_tokens.h"

#include "core/lib/base/error.h"
#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

constexpr size_t kLongestToken = 4096;

uint32_t class_before(std::string_view text, size_t at) {
  size_t place = char_before(text, at);
  return classes_of(next_char(text, place));
}

uint32_t class_behind(std::string_view text, size_t at) { return classes_of(next_char(text, at)); }

bool touches_word(std::string_view text, size_t begin, size_t end) {
  return (begin > 0 && (class_before(text, begin) & kWord)) ||
         (end < text.size() && (class_behind(text, end) & kWord));
}

}  // namespace

AddedToken added_token(const Json& spec, const std::string& where) {
  AddedToken token;
  token.content = string_member(spec, "content", where);
  if (token.content.empty()) throw file_fault(where, "content is empty");
  token.special = bool_member(spec, "special", where, false);
  token.normalized = bool_member(spec, "normalized", where, !token.special);
  token.single_word = bool_member(spec, "single_word", where, false);
  token.lstrip = bool_member(spec, "lstrip", where, false);
  token.rstrip = bool_member(spec, "rstrip", where, false);
  return token;
}

Json token_entry(int64_t id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

void TokenFinder::add(const std::string& pattern, const AddedToken& token, const std::string& where) {
  if (pattern.empty()) return;
  if (pattern.size() > kLongestToken)
    throw file_fault(where, "an added token of {} bytes, expected at most {}", pattern.size(),
                     kLongestToken);
  int32_t node = 0;
  for (const char c : pattern) {
    const auto [place, fresh] = nodes_[node].next.try_emplace(static_cast<unsigned char>(c),
                                                              static_cast<int32_t>(nodes_.size()));
    node = place->second;
    if (fresh) nodes_.emplace_back();
  }
  starts_[static_cast<unsigned char>(pattern[0])] = true;
  nodes_[node].token = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
}

size_t TokenFinder::longest(std::string_view text, size_t at, const Judge& judge, int32_t* token,
                            bool* taken) const {
  size_t length = 0;
  int32_t node = 0;
  for (size_t end = at; end < text.size();) {
    const auto found = nodes_[node].next.find(static_cast<unsigned char>(text[end]));
    if (found == nodes_[node].next.end()) break;
    node = found->second;
    ++end;
    if (nodes_[node].token < 0) continue;
    const Verdict verdict = judge(tokens_[nodes_[node].token], at, end);
    if (verdict == Verdict::not_there) continue;
    length = end - at;
    *token = nodes_[node].token;
    *taken = verdict == Verdict::take;
  }
  return length;
}

void TokenFinder::find(std::string_view text, const Judge& judge, std::vector<Piece>& parts) const {
  size_t open = 0;  // start of the text after the last token
  for (size_t at = 0; at < text.size();) {
    int32_t index = -1;
    bool taken = false;
    const size_t length =
        starts_[static_cast<unsigned char>(text[at])] ? longest(text, at, judge, &index, &taken) : 0;
    if (length == 0) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + length;
    at = end;
    const AddedToken& token = tokens_[index];
    if (!taken || begin < open) continue;
    if (token.single_word && touches_word(text, begin, end)) continue;
    while (token.lstrip && begin > open && (class_before(text, begin) & kSpace))
      begin = char_before(text, begin);
    while (token.rstrip && end < text.size() && (class_behind(text, end) & kSpace)) next_char(text, end);
    if (open < begin) parts.push_back({static_cast<int32_t>(open), static_cast<int32_t>(begin), -1});
    parts.push_back({static_cast<int32_t>(begin), static_cast<int32_t>(end), token.id});
    open = end;
  }
  if (open < text.size())
    parts.push_back({static_cast<int32_t>(open), static_cast<int32_t>(text.size()), -1});
}

}  // namespace forge::text
