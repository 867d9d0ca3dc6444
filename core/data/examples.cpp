#include "core/data/examples.h"

#include <algorithm>

#include "core/base/text.h"

namespace forge {
namespace {

// `trained` is ascending and spans come in order of their begin, so one cursor suffices.
void mark_trained(const std::vector<TokenSpan>& spans, const std::vector<ByteRange>& trained,
                  Example& example) {
  size_t range = 0;
  for (const TokenSpan& span : spans) {
    while (range < trained.size() && trained[range].end <= span.begin) ++range;
    example.ids.push_back(span.id);
    example.supervised.push_back(range < trained.size() && span.begin >= trained[range].begin);
  }
}

bool trains(const Example& example) {
  return std::find(example.supervised.begin(), example.supervised.end(), 1) != example.supervised.end();
}

Example slice(const Example& example, size_t begin, size_t end) {
  Example part;
  part.ids.assign(example.ids.begin() + static_cast<int64_t>(begin),
                  example.ids.begin() + static_cast<int64_t>(end));
  part.supervised.assign(example.supervised.begin() + static_cast<int64_t>(begin),
                         example.supervised.begin() + static_cast<int64_t>(end));
  part.supervised[0] = 0;
  return part;
}

}  // namespace

ExampleMaker::ExampleMaker(const Tokenizer& tokenizer, const ChatTemplate* chat_template, const Job& job)
    : tokenizer_(tokenizer),
      chat_template_(chat_template),
      objective_(job.objective),
      max_length_(job.data.max_length),
      overlong_(job.data.overlong),
      side_(job.data.truncation_side) {
  FORGE_CHECK(max_length_ >= 2, "data.max_length " << max_length_ << " leaves nothing to predict");
  if (!tokenizer.eos_id())
    throw Error(ErrorKind::environment,
                "the tokenizer names no end-of-sequence token (eos_token), expected one")
        .hint("add eos_token to tokenizer_config.json");
}

Example ExampleMaker::tokenise(const RenderedRow& rendered) const {
  std::vector<TextSegment> segments;
  int64_t begin = 0;
  for (const RenderedRow::Run& run : rendered.runs) {
    const auto length = static_cast<size_t>(run.end - begin);
    segments.push_back(
        {std::string_view(rendered.text).substr(static_cast<size_t>(begin), length), run.trusted});
    begin = run.end;
  }
  Example example;
  if (rendered.document && tokenizer_.adds_bos() && tokenizer_.bos_id()) {
    example.ids.push_back(*tokenizer_.bos_id());
    example.supervised.push_back(0);
  }
  mark_trained(tokenizer_.encode_segments(segments), rendered.trained, example);
  if (rendered.document) {
    example.ids.push_back(*tokenizer_.eos_id());
    example.supervised.push_back(1);
  }
  return example;
}

Example ExampleMaker::tokens_of(const Row& row) const {
  Example example;
  if (const auto* chat = std::get_if<ChatRow>(&row)) {
    // Lists of messages in prompt and completion are found only when they are read.
    if (!chat_template_)
      throw Error(ErrorKind::data, "a conversation, but the model has no chat template, expected texts");
    example = tokenise(render_chat(*chat, *chat_template_, objective_));
  } else if (const auto* pair = std::get_if<PairRow>(&row)) {
    example = tokenise(render_pair(*pair, objective_));
  } else if (const auto* text = std::get_if<TextRow>(&row)) {
    example = tokenise(render_text(*text));
  } else {
    const auto& tokens = std::get<TokensRow>(row);
    example = Example{0, tokens.ids, tokens.supervised};
  }
  if (objective_.type == ObjectiveType::pretrain)
    std::fill(example.supervised.begin(), example.supervised.end(), uint8_t{1});
  if (!example.supervised.empty()) example.supervised[0] = 0;
  return example;
}

// One of the four ways of data.overlong; `made` gets the examples and what happened.
void ExampleMaker::cut(Example whole, RowExamples& made) const {
  const size_t length = whole.ids.size(), limit = static_cast<size_t>(max_length_);
  if (length <= limit) {
    made.examples.push_back(std::move(whole));
    return;
  }
  switch (overlong_) {
    case Overlong::truncate:
      made.truncated = true;
      made.examples.push_back(side_ == TruncationSide::right ? slice(whole, 0, limit)
                                                             : slice(whole, length - limit, length));
      return;
    case Overlong::drop:
      made.dropped = true;
      return;
    case Overlong::split:
      made.split = true;
      for (size_t begin = 0; begin < length; begin += limit)
        made.examples.push_back(slice(whole, begin, std::min(length, begin + limit)));
      return;
    case Overlong::error:
      made.problem = format_count(static_cast<int64_t>(length)) +
                     " tokens, expected at most data.max_length " + format_count(max_length_);
      return;
  }
}

RowExamples ExampleMaker::make(const Row& row) const {
  RowExamples made;
  try {
    Example whole = tokens_of(row);
    if (!trains(whole)) {
      made.untrained = true;
      made.problem = "no token of the row is trained";
      return made;
    }
    cut(std::move(whole), made);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    made = RowExamples{};
    made.problem = error.what();
    return made;
  }
  // Parts of a split row that hold context only are left out; a row of which nothing remains is untrained.
  std::erase_if(made.examples, [](const Example& example) { return !trains(example); });
  if (made.examples.empty() && !made.dropped && made.problem.empty()) {
    made = RowExamples{.untrained = true};
    made.problem =
        "the trained tokens all lie past data.max_length " + format_count(max_length_) + " and were cut";
  }
  return made;
}

}  // namespace forge
