#include "core/data/examples/examples.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <span>

#include "core/lib/base/key_error.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

// `trained` is ascending and spans are sorted by start, so one cursor suffices.
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
  return first_trained(example) < std::ssize(example.supervised);
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

// Most messages that are searched for a text, so that one found in none does not search all that
// follow.
constexpr size_t kMessagesAhead = 64;

// Returns for each token the role that it belongs to. A run of data text belongs to the next
// message that contains it, after what was found of that message before, since an answer may say
// what its question says. Text in no message (a tool's schema) counts as the template's.
std::vector<std::string> roles_of(const ChatRow& chat, const RenderedRow& rendered,
                                  const std::vector<TokenSpan>& spans) {
  std::vector<std::string> roles;
  size_t run = 0, message = 0, behind = 0;
  std::string role = "template";
  int64_t begin = 0;
  const auto find = [&](std::string_view said, size_t from) {
    const size_t end = std::min(chat.messages.size(), message + kMessagesAhead);
    for (size_t i = message; i < end; ++i, from = 0) {
      const auto content = chat.messages[i].find("content");
      if (content == chat.messages[i].end() || !content->is_string()) continue;
      const size_t at = content->get_ref<const std::string&>().find(said, from);
      if (at == std::string::npos) continue;
      role = chat.messages[i].value("role", "");
      message = i;
      behind = at + said.size();
      return true;
    }
    return false;
  };
  const auto enter_run = [&] {
    role = "template";
    if (rendered.runs[run].trusted) return;
    const auto length = static_cast<size_t>(rendered.runs[run].end - begin);
    const std::string_view said =
        trim(std::string_view(rendered.text).substr(static_cast<size_t>(begin), length));
    if (!find(said, behind) && behind > 0) find(said, 0);  // a template may write a text twice
  };
  if (!rendered.runs.empty()) enter_run();
  for (const TokenSpan& span : spans) {
    while (run + 1 < rendered.runs.size() && span.begin >= rendered.runs[run].end) {
      begin = rendered.runs[run++].end;
      enter_run();
    }
    roles.push_back(role);
  }
  return roles;
}

Example tokenise(const Tokenizer& tokenizer, const RenderedRow& rendered,
                 std::vector<TokenSpan>& spans) {
  std::vector<TextSegment> segments;
  int64_t begin = 0;
  for (const RenderedRow::Run& run : rendered.runs) {
    const auto length = static_cast<size_t>(run.end - begin);
    segments.push_back(
        {std::string_view(rendered.text).substr(static_cast<size_t>(begin), length), run.trusted});
    begin = run.end;
  }
  Example example;
  if (rendered.document && tokenizer.adds_bos() && tokenizer.bos_id()) {
    example.ids.push_back(*tokenizer.bos_id());
    example.supervised.push_back(0);
  }
  spans = tokenizer.encode_segments(segments);
  mark_trained(spans, rendered.trained, example);
  if (rendered.document) {
    example.ids.push_back(*tokenizer.eos_id());
    example.supervised.push_back(1);
  }
  return example;
}

// True if the template writes a token after the answer in `range` by which servers of the model
// know its end. `spans` begin with the answer's, and `run` is the last of its runs.
bool teaches_end(const Tokenizer& tokenizer, const RenderedRow& rendered,
                 std::span<const TokenSpan> spans, const ByteRange& range, size_t run) {
  if (!rendered.runs[run].trusted) return false;
  const int64_t begin = std::max(range.begin, run > 0 ? rendered.runs[run - 1].end : 0);
  for (const TokenSpan& token : spans) {
    if (token.begin >= range.end) break;
    if (token.begin >= begin && (tokenizer.is_mark(token.id) || token.id == tokenizer.eos_id())) return true;
  }
  return false;
}

// Counts the parts that `spans` of a rendered row do not teach.
void count_untaught(const Tokenizer& tokenizer, const RenderedRow& rendered,
                    const std::vector<TokenSpan>& spans, RowExamples& made) {
  size_t run = 0, span = 0;
  for (const ByteRange& range : rendered.trained) {
    while (span < spans.size() && spans[span].end <= range.begin) ++span;
    made.cuts.glued += span < spans.size() && spans[span].begin < range.begin;
    while (run + 1 < rendered.runs.size() && rendered.runs[run].end < range.end) ++run;
    made.cuts.endless += !rendered.document && !rendered.runs.empty() &&
                         !teaches_end(tokenizer, rendered, std::span(spans).subspan(span), range, run);
  }
}

}  // namespace

std::string problem_key(const Error& error) {
  return dynamic_cast<const AnswerFirst*>(&error) ? "assistant first" : "";
}

void take_part(RowExamples part, RowExamples& all) {
  all.truncated |= part.truncated;
  all.split |= part.split;
  all.cuts += part.cuts;
  std::ranges::move(part.examples, std::back_inserter(all.examples));
  std::ranges::move(part.unsaid, std::back_inserter(all.unsaid));
  if (all.unknown.empty()) all.unknown = part.unknown;
}

ExampleMaker::ExampleMaker(const Tokenizer& tokenizer, const ChatTemplate* chat_template, const Job& job, const ExampleModel& model)
    : tokenizer_(tokenizer),
      chat_template_(chat_template),
      objective_(job.objective),
      model_(model),
      data_(job.data),
      max_length_(job.data.join_documents ? std::numeric_limits<int64_t>::max() : job.data.max_length) {
  if (user_prompts() && !chat_template)
    throw KeyError(ErrorKind::job, "data.prompt_as", "is user, and the model has no chat template", "name one in data.template, or write text");
  FORGE_CHECK(max_length_ >= 2, "data.max_length " << max_length_ << " leaves nothing to predict");
  if (!tokenizer.eos_id())
    throw Error(ErrorKind::environment,
                "the tokenizer names no end-of-sequence token (eos_token), expected one")
        .hint("add eos_token to tokenizer_config.json");
}

void ExampleMaker::count_unknown(std::string_view text, const std::vector<TokenSpan>& spans,
                                 RowExamples& made) const {
  if (!tokenizer_.unk_id()) return;
  for (const TokenSpan& token : spans) {
    if (token.id != *tokenizer_.unk_id()) continue;
    const auto begin = static_cast<size_t>(token.begin);
    if (made.cuts.unknown++ == 0)
      made.unknown = trim(text.substr(begin, static_cast<size_t>(token.end - token.begin)));
  }
}

Example ExampleMaker::tokens_by_kind(const Row& row, std::vector<std::string>* roles, RowExamples* made) const {
  const auto say = [&](const char* role, size_t up_to) {
    if (roles) roles->resize(std::max(roles->size(), up_to), role);
  };
  if (const auto* tokens = std::get_if<TokensRow>(&row)) {
    say("tokens", tokens->ids.size());
    return {0, tokens->ids, tokens->supervised};
  }
  const auto* chat = std::get_if<ChatRow>(&row);
  const auto* pair = std::get_if<PairRow>(&row);
  const auto* text = std::get_if<TextRow>(&row);
  const auto* prompt = std::get_if<PromptRow>(&row);
  // Lists of messages in prompt and completion are only detected on reading.
  if (!chat_template_ && (chat || (prompt && prompt->text.empty())))
    throw Error(ErrorKind::data, std::string("a conversation, but the model has no chat template, expected ") + (chat ? "texts" : "a text"));
  const RenderedRow rendered = chat   ? render_chat(*chat, *chat_template_, objective_)
                               : pair ? render_pair(*pair, objective_)
                               : text ? render_text(*text)
                                      : render_prompt(std::get<PromptRow>(row), chat_template_);
  std::vector<TokenSpan> spans;
  Example example = tokenise(tokenizer_, rendered, spans);
  if (made) {
    count_untaught(tokenizer_, rendered, spans, *made);
    count_unknown(rendered.text, spans, *made);
    made->unsaid.insert(made->unsaid.end(), rendered.unsaid.begin(), rendered.unsaid.end());
    const bool bare = pair ? !pair->prompt.empty() : prompt && prompt->chat.messages.empty();
    made->cuts.bare_prompts += chat_template_ && bare;
  }
  if (chat && roles) *roles = roles_of(*chat, rendered, spans);
  if (text) say("text", example.ids.size());
  if (pair) {
    const bool bos = example.ids.size() > spans.size() + 1;
    const auto in_prompt = std::count_if(spans.begin(), spans.end(), [&](const TokenSpan& span) {
      return span.begin < static_cast<int64_t>(pair->prompt.size());
    });
    say("prompt", static_cast<size_t>(in_prompt) + bos);
    say("completion", example.ids.size());
  }
  return example;
}

Example ExampleMaker::tokens_of(const Row& row, RoleTokens* roles, RowExamples* made) const {
  std::vector<std::string> role_of;
  Example example = tokens_by_kind(row, roles ? &role_of : nullptr, made);
  if (objective_.type() == ObjectiveType::pretrain)
    std::fill(example.supervised.begin(), example.supervised.end(), uint8_t{1});
  if (!example.supervised.empty()) example.supervised[0] = 0;
  for (size_t i = 0; i < role_of.size(); ++i) {
    RoleCount& count = (*roles)[role_of[i]];
    ++count.all;
    count.trained += example.supervised[i];
  }
  require_embedded(example);
  return example;
}

// Throws Error(data) for ids without an embedding row. A tokenizer with added tokens has ids beyond
// the embedding of a model that was not resized.
void ExampleMaker::require_embedded(const Example& example) const {
  if (model_.embedding_rows == 0) return;
  for (const int32_t id : example.ids)
    if (id >= model_.embedding_rows)
      throw Error(ErrorKind::data, "token " + std::to_string(id) + " (" +
                                       dump_json(tokenizer_.token_of(id).value_or("")) +
                                       ") has no row in the model's embedding, which ends at " +
                                       std::to_string(model_.embedding_rows - 1))
          .hint("resize the model to its tokenizer, or use the tokenizer that it was trained with");
}

bool ExampleMaker::past(int64_t tokens, const std::optional<int64_t>& most, const std::string& key,
                        int64_t whole, RowExamples& made) const {
  if (!most || tokens <= *most) return false;
  made.problem =
      format_count(tokens) + " tokens, expected at most " + key + " " + format_count(*most);
  made.dropped = data_.overlong == Overlong::drop;
  if (made.dropped) made.cuts.dropped_tokens += whole;
  return true;
}

bool ExampleMaker::past_sides(int64_t prompt, int64_t completion, int64_t whole,
                              RowExamples& made) const {
  return past(prompt, data_.max_prompt_length, "data.max_prompt_length", whole, made) ||
         past(completion, data_.max_completion_length, "data.max_completion_length", whole, made);
}

bool ExampleMaker::cut_parts(Example& whole, RowExamples& made) const {
  const int64_t prompt = first_trained(whole), length = std::ssize(whole.ids);
  const int64_t completion = length - prompt;
  const bool long_prompt = data_.max_prompt_length && prompt > *data_.max_prompt_length;
  const bool long_completion =
      data_.max_completion_length && completion > *data_.max_completion_length;
  if (!long_prompt && !long_completion) return true;
  if (data_.overlong != Overlong::truncate) return !past_sides(prompt, completion, length, made);
  const int64_t begin = long_prompt ? prompt - *data_.max_prompt_length : 0;
  const int64_t end = long_completion ? prompt + *data_.max_completion_length : length;
  const bool bos = begin > 0 && tokenizer_.bos_id() && whole.ids[0] == *tokenizer_.bos_id();
  const int32_t opening = whole.ids[0];
  whole = slice(whole, static_cast<size_t>(begin), static_cast<size_t>(end));
  if (bos) whole.ids[0] = opening;
  made.truncated = true;
  made.cuts.prompts += long_prompt;
  made.cuts.completions += long_completion;
  made.cuts.tokens += length - (end - begin);
  return true;
}

// Applies data.overlong; `made` receives the examples and what happened.
void ExampleMaker::cut(Example whole, RowExamples& made) const {
  if (!cut_parts(whole, made)) return;
  const size_t length = whole.ids.size(), limit = static_cast<size_t>(max_length_);
  if (length <= limit) {
    made.examples.push_back(std::move(whole));
    return;
  }
  switch (data_.overlong) {
    case Overlong::truncate:
      made.truncated = true;
      made.cuts.tokens += static_cast<int64_t>(length - limit);
      made.examples.push_back(data_.truncation_side == TruncationSide::right
                                  ? slice(whole, 0, limit)
                                  : slice(whole, length - limit, length));
      return;
    case Overlong::split:
      made.split = true;
      for (size_t begin = 0; begin < length; begin += limit)
        made.examples.push_back(slice(whole, begin, std::min(length, begin + limit)));
      return;
    case Overlong::drop:
    case Overlong::error:
      past(static_cast<int64_t>(length), max_length_, "data.max_length",
           static_cast<int64_t>(length), made);
      return;
  }
}

RowExamples ExampleMaker::make(const Row& row, RoleTokens* roles) const {
  try {
    if (reads_source()) return make_sourced(row, roles);
    if (const auto* text = std::get_if<TextRow>(&row); text && !separator().empty()) {
      const std::vector<std::string> documents = documents_of(*text, separator());
      if (documents.empty())
        return RowExamples{.untrained = true, .problem = "the row holds separators alone"};
      return make_apart(documents.size(), [&](size_t i) { return Row(TextRow{documents[i]}); }, roles);
    }
    const auto* chat = std::get_if<ChatRow>(&row);
    if (!chat || objective_.type() == ObjectiveType::pretrain ||
        objective_.as<LikelihoodConfig>().train_on != TrainOn::each_assistant)
      return make_one(row, roles);
    const std::vector<size_t> turns = turns_apart(*chat);
    const auto turn = [&](size_t i) { return Row(up_to_turn(*chat, turns[i])); };
    return turns.empty() ? make_one(row, roles) : make_apart(turns.size(), turn, roles);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    return RowExamples{.problem = error.what(), .problem_key = problem_key(error)};
  }
}

RowExamples ExampleMaker::make_apart(size_t count, const std::function<Row(size_t)>& part, RoleTokens* roles) const {
  RowExamples all;
  bool dropped = false;
  for (size_t i = 0; i < count; ++i) {
    RowExamples made = make_one(part(i), roles);
    if (!made.problem.empty() && !made.dropped) return made;
    dropped |= made.dropped;
    if (made.dropped) all.problem = made.problem;
    take_part(std::move(made), all);
    for (auto once : {&CutCounts::unsaid_tools, &CutCounts::bare_prompts})
      all.cuts.*once = std::min<int64_t>(1, all.cuts.*once);
  }
  all.dropped = all.examples.empty();
  all.truncated |= dropped && !all.dropped;
  if (!all.dropped) all.problem.clear();
  return all;
}

RowExamples ExampleMaker::make_one(const Row& row, RoleTokens* roles) const {
  RowExamples made;
  Example whole = tokens_of(row, roles, &made);
  count_unsaid(made);
  const int64_t length = std::ssize(whole.ids);
  const bool is_prompt = std::holds_alternative<PromptRow>(row);
  if (!is_prompt && !trains(whole)) {
    made.untrained = true;
    made.problem = "no token of the row is trained";
    return made;
  }
  cut(std::move(whole), made);
  if (is_prompt) return made;  // no trained tokens
  // Parts of a split row that hold context only are left out. A row of which nothing remains is no
  // fault of the data, and one long question must not stop a run: it is dropped for its length.
  std::erase_if(made.examples, [](const Example& example) { return !trains(example); });
  if (made.examples.empty() && !made.dropped && made.problem.empty()) {
    made = RowExamples{.dropped = true, .cuts = {.dropped_tokens = length}};
    made.problem = "all trained tokens lie past data.max_length " + format_count(max_length_);
  }
  return made;
}

}  // namespace forge
