#include "core/lib/text/tokenizer/post_processors.h"

#include <algorithm>

#include "core/lib/base/text.h"
#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/models/models.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

int64_t forward(std::string_view text, int64_t at, int64_t characters) {
  for (; characters > 0 && at < static_cast<int64_t>(text.size()); --characters) {
    at += utf8_length(static_cast<unsigned char>(text[static_cast<size_t>(at)]));
  }
  return at;
}

int64_t backward(std::string_view text, int64_t at, int64_t characters) {
  for (; characters > 0 && at > 0; --characters)
    at = static_cast<int64_t>(char_before(text, static_cast<size_t>(at)));
  return at;
}

// Removes spaces at the ends of tokens from their offsets. A space that add_prefix_space inserted
// was never in them.
void trim_offsets(Encoding& encoding, bool add_prefix_space) {
  for (size_t k = 0; k < encoding.tokens.size(); ++k) {
    TokenSpan& token = encoding.tokens[k];
    const std::string text = encoding.text_of(token, k);
    std::vector<bool> space;
    for (size_t at = 0; at < text.size();) {
      const uint32_t code = next_char(text, at);
      space.push_back(code == byte_to_alphabet(' ') || (classes_of(code) & kSpace));
    }
    int64_t leading = std::find(space.begin(), space.end(), false) - space.begin();
    const int64_t trailing = std::find(space.rbegin(), space.rend(), false) - space.rbegin();
    if (leading > 0) {
      if ((k == 0 || token.begin == 0) && add_prefix_space && leading == 1) leading = 0;
      token.begin = std::min(forward(encoding.input, token.begin, leading), token.end);
    }
    if (trailing > 0) token.end = std::max(backward(encoding.input, token.end, trailing), token.begin);
  }
}

int32_t checked_id(const Json& id, const std::string& where) {
  if (!id.is_number_integer() || id < 0 || id > kMaxTokenId)
    throw file_fault(where, "expected a token id from 0 to {}", kMaxTokenId);
  return id.get<int32_t>();
}

// Returns the id of ["</s>", 2].
int32_t pair_id(const Json& spec, const char* key, const std::string& where) {
  const Json& pair = array_member(spec, key, where);
  if (pair.size() != 2) throw file_fault(where, "{}: expected [token, id]", key);
  return checked_id(pair[1], where + "." + key);
}

PostProcessor byte_level(const Json& spec, const std::string& where) {
  return {PostStep{.trims = bool_member(spec, "trim_offsets", where, true),
                   .add_prefix_space = bool_member(spec, "add_prefix_space", where, true)}};
}

PostProcessor bert(const Json& spec, const std::string& where) {
  return {
      PostStep{.before = {pair_id(spec, "cls", where)}, .behind = {pair_id(spec, "sep", where)}}};
}

PostProcessor roberta(const Json& spec, const std::string& where) {
  PostProcessor steps = byte_level(spec, where);
  steps[0].before = {pair_id(spec, "cls", where)};
  steps[0].behind = {pair_id(spec, "sep", where)};
  return steps;
}

// Reads "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}, …]. "pair" is for
// two texts and not used.
PostProcessor templates(const Json& spec, const std::string& where) {
  PostStep step;
  const Json& single = array_member(spec, "single", where);
  const Json* tokens = find_member(spec, "special_tokens");
  int sequences = 0;
  for (size_t k = 0; k < single.size(); ++k) {
    const std::string place = where + ".single[" + std::to_string(k) + "]";
    if (find_member(single[k], "Sequence") != nullptr) {
      ++sequences;
      continue;
    }
    const std::string name = string_member(member(single[k], "SpecialToken", place), "id", place);
    const Json* token = tokens == nullptr ? nullptr : find_member(*tokens, name.c_str());
    if (token == nullptr)
      throw file_fault(place, "the token \"{}\" is not in special_tokens", name);
    for (const Json& id : array_member(*token, "ids", place))
      (sequences == 0 ? step.before : step.behind).push_back(checked_id(id, place));
  }
  if (sequences != 1)
    throw file_fault(where, "single: expected the text (Sequence) once, found it {} times",
                     sequences);
  return {std::move(step)};
}

PostProcessor sequence(const Json& spec, const std::string& where) {
  PostProcessor steps;
  const Json& list = array_member(spec, "processors", where);
  for (size_t k = 0; k < list.size(); ++k) {
    const PostProcessor more =
        make_post_processor(list[k], where + ".processors[" + std::to_string(k) + "]");
    steps.insert(steps.end(), more.begin(), more.end());
  }
  return steps;
}

constexpr std::pair<const char*, PostProcessor (*)(const Json& spec, const std::string& where)>
    kPostProcessors[] = {{"BertProcessing", bert},
    {"ByteLevel", byte_level},
    {"RobertaProcessing", roberta},
    {"Sequence", sequence},
    {"TemplateProcessing", templates}};

}  // namespace

PostProcessor make_post_processor(const Json& spec, const std::string& where) {
  return maker_of(kPostProcessors, string_member(spec, "type", where), "post-processor", where)(
      spec, where);
}

void post_process(const PostProcessor& steps, Encoding& encoding, bool add_special_tokens) {
  for (const PostStep& step : steps) {
    if (step.trims) trim_offsets(encoding, step.add_prefix_space);
    if (!add_special_tokens) continue;
    std::vector<TokenSpan> tokens;
    tokens.reserve(step.before.size() + encoding.tokens.size() + step.behind.size());
    for (const int32_t id : step.before) tokens.push_back({id, 0, 0});
    tokens.insert(tokens.end(), encoding.tokens.begin(), encoding.tokens.end());
    for (const int32_t id : step.behind) tokens.push_back({id, 0, 0});
    encoding.tokens = std::move(tokens);
  }
}

}  // namespace forge::text
