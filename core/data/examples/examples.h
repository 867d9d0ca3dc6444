#pragma once
// Makes examples of rows: tokens and which of them are trained.
//
//   ExampleMaker maker(tokenizer, &chat_template, job);
//   RowExamples made = maker.make(row);
//   if (!made.problem.empty()) …   // "the chat template raised …", "1,340 tokens, expected at most 1,024"
//
// A token is supervised exactly when its first byte lies inside a trained range of the text. So a
// token that begins before the range and reaches into it is context (at inference it would be part
// of the prompt), and a token that begins inside and reaches past the end is trained. All tokens of
// one character that is split into several begin where the character begins. The first token of an
// example is never supervised: nothing precedes it.
//
// Text of a person or a data file never becomes a control token, whatever it looks like: control
// tokens come from the chat template's own text, from the tokenizer's bos and eos, and from rows of
// finished tokens.
//
// bos: a chat template writes it or not, and no other is added. Documents and pairs begin with it
// if the tokenizer adds it to texts, and they end with eos.
//
// objective pretrain trains on everything. sft trains, by train_on:
//                     assistant         last_assistant     completion                     all
//   conversation      assistant turns   the last of them   those after the last user's    everything
//   prompt/completion completion + eos  …                  …                              everything
//   text              everything (a document has no roles)
//   tokens            by its own labels or mask
//   prompt            nothing; the generation prompt follows a conversation
// Turn flags (`train`, `weight`) win over train_on: assistant, last_assistant and completion.
//
// each_assistant makes an example of every turn that assistant trains: the conversation up to it,
// as the model will see it when it answers, with that turn alone trained. Turns that are too long
// are left out, and the row counts as cut; it is dropped when none remains. Other rows are trained
// as by assistant.
//
// Lengths. The prompt is everything before the first trained token, the completion the rest. Each
// is held to its own limit (data.max_prompt_length, data.max_completion_length) before both are
// held to data.max_length.
//   (a row whose trained tokens are all cut away is dropped and counted, never trained as nothing)
//   truncate   a prompt loses its beginning (but not its bos) and a completion its end, so that what is left meets
//              where they met; past max_length truncation_side decides
//   drop       the row is left out, whichever limit it exceeds; error: it is a fault
//   split      parts of max_length; the other two limits do not go with it
//
// An encoder-decoder (sourced.cpp) trains on rows of two texts: the encoder reads the prompt, the
// decoder learns the completion. Each keeps the tokens around a text that the tokenizer's template
// adds; max_length is the limit of both and the token between them.
//
// A pair of answers (pairs.cpp) that truncate cuts keeps its prompt, and each answer loses its end,
// as in TRL. With truncation_side left the answers are kept: both sides lose the same beginning of
// the prompt, as many tokens as the longer side is past max_length, and only what is then left over
// comes off an answer's end. Each side is held to max_length by itself. Pairs whose answers are
// equal tokens are dropped. Answers that are judged one by one are cut alike, each with its own
// prompt. No answer of a reward model's pairs is cut: its score is at its end.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/data/batch/batch.h"
#include "core/data/examples/cuts.h"
#include "core/data/examples/example_model.h"
#include "core/data/examples/render.h"
#include "core/job/job.h"

namespace forge {

struct RowExamples {
  std::vector<Example> examples;    // none when the row has a problem, is dropped or is untrained; ids are 0
  std::vector<std::string> labels;  // of answers to judge, one for each example; else none
  bool truncated = false, split = false, dropped = false, untrained = false;
  CutCounts cuts;
  PairCounts pairs;
  std::vector<std::string> unsaid;  // as RenderedRow has them; cuts.unsaid counts them
  std::string unknown;              // the first text that became the unknown token
  std::string problem;              // why the row cannot be used; why it is untrained; why it was dropped
  std::string problem_key = {};     // as RowFault::key, of a problem that many rows of a file have
};

// Returns RowExamples::problem_key of the error that a row was refused with; empty if it is counted
// by no key.
std::string problem_key(const Error& error);
// Adds the examples of a part of a row, and what happened to it, to those of the row.
void take_part(RowExamples part, RowExamples& all);
// Sets the counts of `unsaid` parts in `cuts`, from `unsaid` of all its answers.
void count_unsaid(RowExamples& made);

// Tokens of a row by who wrote them, before any cut: the roles of a conversation, "template" for
// what the chat template adds, "prompt" and "completion" of pairs, "text" of documents, "tokens" of
// finished ones.
struct RoleCount {
  int64_t all = 0, trained = 0;
};
using RoleTokens = std::map<std::string, RoleCount>;

class ExampleMaker {
 public:
  // Keeps references. Throws Error(environment) if the tokenizer has no eos.
  ExampleMaker(const Tokenizer& tokenizer, const ChatTemplate* chat_template, const Job& job, const ExampleModel& model = {});
  RowExamples make(const Row& row, RoleTokens* roles = nullptr) const;
  // Makes examples of two answers to one prompt, for objectives that compare them: two, chosen
  // before rejected, or none.
  RowExamples make_pair(const AnswersRow& row, RoleTokens* roles = nullptr) const;
  // Makes examples of answers that are judged one by one: one for each, or none if one cannot be
  // used.
  RowExamples make_judged(const AnswersRow& row, RoleTokens* roles = nullptr) const;
  // True if the objective compares answers: then rows of two answers go to make_pair().
  bool compares() const;
  // True if the objective judges each answer by itself: then they go to make_judged().
  bool judges() const;
  bool reads_margins() const;
  // Returns the tokens before any cut; `made` gets the parts of the row that they do not teach.
  // Throws Error(data).
  Example tokens_of(const Row& row, RoleTokens* roles = nullptr, RowExamples* made = nullptr) const;
  bool has_template() const { return chat_template_ != nullptr; }
  // True if data.prompt_as makes turns of prompts that are texts.
  bool user_prompts() const { return data_.prompt_as == PromptAs::user; }
  // data.separator; empty if rows of text are one document each.
  std::string separator() const { return data_.separator.value_or(""); }
  bool reads_source() const { return model_.reads_source(); }
  // True if the chat template names this key.
  bool template_reads(const std::string& key) const { return chat_template_ && chat_template_->names(key); }
  int64_t vocab_size() const { return tokenizer_.vocab_size(); }
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  // Fills `roles` with the role of each token.
  Example tokens_by_kind(const Row& row, std::vector<std::string>* roles, RowExamples* made) const;
  void count_unknown(std::string_view text, const std::vector<TokenSpan>& spans,
                     RowExamples& made) const;
  void cut(Example whole, RowExamples& made) const;
  RowExamples make_one(const Row& row, RoleTokens* roles) const;
  // Makes an example of each of a row's `count` parts.
  RowExamples make_apart(size_t count, const std::function<Row(size_t)>& part, RoleTokens* roles) const;
  // Returns false if the row is refused.
  bool cut_parts(Example& whole, RowExamples& made) const;
  std::optional<std::string> answer_problem(const AnswersRow& row, RoleTokens* roles, RowExamples& made) const;
  void cut_answers(const std::vector<Example*>& sides, RowExamples& made) const;
  // Both refuse a row for drop and error, and return true: past() if it has more `tokens`, of
  // `whole`, than the `most` that a key states, past_sides() if a side is longer than its limit.
  bool past(int64_t tokens, const std::optional<int64_t>& most, const std::string& key,
            int64_t whole, RowExamples& made) const;
  bool past_sides(int64_t prompt, int64_t completion, int64_t whole, RowExamples& made) const;
  void require_embedded(const Example& example) const;
  RowExamples make_sourced(const Row& row, RoleTokens* roles) const;
  // Returns false if the row is refused.
  bool fit_sides(std::vector<TokenSpan>& source, std::vector<TokenSpan>& answer, RowExamples& made) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_template_;
  ObjectiveConfig objective_;
  ExampleModel model_;
  DataConfig data_;
  int64_t max_length_;
};

}  // namespace forge
