// Examples of an encoder-decoder: a source, the token that starts the decoder, and the answer. Both
// texts are tokenised as the tokenizer's own template wraps a text (T5: "text</s>", BART:
// "<s>text</s>"), and an answer ends with eos in any case. A cut leaves the tokens that the
// template added.
#include <algorithm>
#include <limits>

#include "core/data/examples/examples.h"

namespace forge {
namespace {

// Returns the number of tokens that a template put after the text, or before it: they stand for no
// part of it.
int64_t behind(const std::vector<TokenSpan>& tokens) {
  return std::find_if(tokens.rbegin(), tokens.rend(), [](const TokenSpan& token) { return token.end > 0; }) - tokens.rbegin();
}
int64_t before(const std::vector<TokenSpan>& tokens) {
  return std::find_if(tokens.begin(), tokens.end(), [](const TokenSpan& token) { return token.end > 0; }) - tokens.begin();
}

// Cuts down to `most` tokens; the template's tokens stay.
void shorten(std::vector<TokenSpan>& tokens, int64_t most, TruncationSide side) {
  const auto length = static_cast<int64_t>(tokens.size());
  const int64_t cut = std::min(length - most, length - behind(tokens) - before(tokens));
  if (cut <= 0) return;
  const auto first = side == TruncationSide::right ? tokens.end() - behind(tokens) - cut : tokens.begin() + before(tokens);
  tokens.erase(first, first + cut);
}

int64_t size_of(const std::vector<TokenSpan>& tokens) { return static_cast<int64_t>(tokens.size()); }

// Returns the tokens of one mask out of finished tokens, each as a part of the text.
std::vector<TokenSpan> part_of(const TokensRow& row, uint8_t mask) {
  std::vector<TokenSpan> tokens;
  for (size_t i = 0; i < row.ids.size(); ++i)
    if (row.supervised[i] == mask) tokens.push_back({row.ids[i], static_cast<int64_t>(i), static_cast<int64_t>(i) + 1});
  return tokens;
}

// Tokenises a text with its template's tokens, for the encoder, or with `ends`, so that eos is
// last, for the decoder.
std::vector<TokenSpan> wrapped(const Tokenizer& tokenizer, const std::string& text, bool ends) {
  std::vector<TokenSpan> tokens = tokenizer.encode_segments({{text, false}}, /*add_special_tokens=*/true);
  const int32_t eos = *tokenizer.eos_id();
  if (ends && (tokens.empty() || tokens.back().id != eos)) tokens.push_back({eos, 0, 0});
  return tokens;
}

}  // namespace

bool ExampleMaker::fit_sides(std::vector<TokenSpan>& source, std::vector<TokenSpan>& answer, RowExamples& made) const {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  const int64_t positions = model_.most_positions > 0 ? model_.most_positions : kAny;
  const int64_t all = size_of(source) + 1 + size_of(answer), whole_answer = size_of(answer);
  int64_t most_source = std::min(data_.max_prompt_length.value_or(kAny), positions), most_answer = std::min(data_.max_completion_length.value_or(kAny), positions);
  if (data_.overlong != Overlong::truncate)
    return !past_sides(size_of(source), size_of(answer), all, made) &&
           !past(std::max(size_of(source), size_of(answer)), positions,
                 "the model's max_position_embeddings", all, made) &&
           !past(all, max_length_, "data.max_length", all, made);
  shorten(answer, most_answer, TruncationSide::right);
  shorten(source, most_source, data_.truncation_side);
  // If both do not fit, the source is cut until the answer has half of the room.
  if (size_of(source) + 1 + size_of(answer) > max_length_) {
    shorten(answer, std::max(max_length_ / 2, max_length_ - 1 - size_of(source)), TruncationSide::right);
    shorten(source, max_length_ - 1 - size_of(answer), data_.truncation_side);
  }
  const int64_t cut = all - (size_of(source) + 1 + size_of(answer));
  made.truncated = cut > 0;
  made.cuts.tokens += cut;
  made.cuts.completions += size_of(answer) < whole_answer;
  made.cuts.prompts += cut > whole_answer - size_of(answer);
  return true;
}

RowExamples ExampleMaker::make_sourced(const Row& row, RoleTokens* roles) const {
  RowExamples made;
  const auto* pair = std::get_if<PairRow>(&row);
  const auto* tokens = std::get_if<TokensRow>(&row);
  if (!pair && !tokens) {
    made.problem = "expected two texts, a source and its answer: the model is an encoder-decoder";
    return made;
  }
  std::vector<TokenSpan> source = pair ? wrapped(tokenizer_, pair->prompt, false) : part_of(*tokens, kSource);
  std::vector<TokenSpan> answer = pair ? wrapped(tokenizer_, pair->completion, true) : part_of(*tokens, 1);
  if (source.empty()) {
    made.problem = "an empty source, which leaves the encoder nothing to read";
    return made;
  }
  if (pair) count_unknown(pair->prompt, source, made), count_unknown(pair->completion, answer, made);
  if (roles) {
    (*roles)["prompt"].all += size_of(source), (*roles)["template"].all += 1;
    (*roles)["completion"].all += size_of(answer), (*roles)["completion"].trained += size_of(answer);
  }
  if (!fit_sides(source, answer, made)) return made;
  Example example;
  const auto add = [&](int32_t id, uint8_t mask) { example.ids.push_back(id), example.supervised.push_back(mask); };
  for (const TokenSpan& token : source) add(token.id, kSource);
  add(static_cast<int32_t>(model_.decoder_start_id), 0);
  for (const TokenSpan& token : answer) add(token.id, 1);
  require_embedded(example);
  made.examples.push_back(std::move(example));
  return made;
}

}  // namespace forge
