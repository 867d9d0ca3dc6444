// Examples of answers to compare or judge: two examples that share a prompt, or single ones.
#include <algorithm>

#include "core/data/examples/examples.h"
#include "core/learn/objective/objective.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

int64_t length_of(const Example& example) { return static_cast<int64_t>(example.ids.size()); }

// Removes `front` tokens after the first `kept`, and everything from `end` on.
void shorten(Example& example, int64_t kept, int64_t front, int64_t end) {
  const auto cut = [&](auto& values) {
    values.resize(static_cast<size_t>(end));
    values.erase(values.begin() + kept, values.begin() + kept + front);
  };
  cut(example.ids);
  cut(example.supervised);
}

RowExamples without(RowExamples made, const std::string& problem) {
  made.examples.clear();
  made.labels.clear();
  made.problem = problem;
  return made;
}
RowExamples dropped(int64_t tokens, const std::string& problem) {
  return without({.dropped = true, .cuts = {.dropped_tokens = tokens}}, problem);
}

}  // namespace

bool ExampleMaker::compares() const { return objective_of(objective_.type()).coupling == Coupling::pair; }
bool ExampleMaker::judges() const { return objective_of(objective_.type()).coupling == Coupling::answer; }
bool ExampleMaker::reads_margins() const { return objective_of(objective_.type()).scores; }

void count_unsaid(RowExamples& made) {
  const auto tools = std::count(made.unsaid.begin(), made.unsaid.end(), "tools");
  made.cuts.unsaid = std::ssize(made.unsaid) - tools;
  made.cuts.unsaid_tools = tools > 0;
}

// Cuts the answers. All of them lose the same part of their prompt, which is kept whole if the end
// is cut.
void ExampleMaker::cut_answers(const std::vector<Example*>& sides, RowExamples& made) const {
  const int64_t most_prompt = data_.max_prompt_length.value_or(INT32_MAX), most_answer = data_.max_completion_length.value_or(INT32_MAX);
  int64_t front = 0, room = INT32_MAX;  // tokens the prompt loses, and could lose at most
  const bool bos = tokenizer_.bos_id() && sides[0]->ids[0] == *tokenizer_.bos_id();
  for (const Example* side : sides) {
    const int64_t prompt = first_trained(*side), answer = std::min(length_of(*side) - prompt, most_answer);
    const int64_t past =
        data_.truncation_side == TruncationSide::left ? prompt + answer - max_length_ : 0;
    front = std::max({front, prompt - most_prompt, past});
    room = std::min(room, prompt - 1);  // the token before an answer predicts its first token
  }
  front = std::clamp<int64_t>(front, 0, std::max<int64_t>(0, room));
  made.cuts.prompts += front > 0;
  int64_t cut = 0;
  for (Example* side : sides) {
    const int64_t before = length_of(*side), prompt = first_trained(*side);
    const int64_t end = std::min({before, prompt + most_answer, max_length_ + front});
    cut += end < before;
    shorten(*side, bos && front > 0 ? 1 : 0, front, end);
    made.cuts.tokens += before - length_of(*side);
  }
  made.cuts.completions += cut;
  made.truncated |= front > 0 || cut > 0;
  made.pairs.one_side_cut += cut > 0 && cut < static_cast<int64_t>(sides.size());
}

// Returns why the row cannot be used, or makes the tokens of each answer before any cut, with its
// label.
std::optional<std::string> ExampleMaker::answer_problem(const AnswersRow& row, RoleTokens* roles, RowExamples& made) const {
  for (const AnswersRow::Answer& answer : row.answers) {
    try {
      const Row kind = std::visit([](const auto& value) { return Row(value); }, answer.row);
      Example side = tokens_of(kind, roles, &made);
      const auto* texts = std::get_if<PairRow>(&kind);
      if (texts && texts->prompt.empty() && !tokenizer_.adds_bos())
        return "an empty prompt: the first token of an answer would be predicted from nothing";
      const int64_t prompt = first_trained(side), length = length_of(side);
      if (prompt == length) {
        made.untrained = true;
        return answer.name + ": no token of the answer is trained";
      }
      if (data_.overlong != Overlong::truncate &&
          (past_sides(prompt, length - prompt, length, made) ||
           past(length, max_length_, "data.max_length", length, made)))
        return answer.name + ": " + made.problem;
      made.examples.push_back(std::move(side));
      made.labels.push_back(answer.name);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw;
      made.problem_key = problem_key(error);
      return answer.name + ": " + error.what();
    }
  }
  count_unsaid(made);
  made.cuts.bare_prompts = std::min<int64_t>(1, made.cuts.bare_prompts);
  return std::nullopt;
}

RowExamples ExampleMaker::make_judged(const AnswersRow& row, RoleTokens* roles) const {
  RowExamples made;
  if (const auto problem = answer_problem(row, roles, made)) return without(std::move(made), *problem);
  for (Example& answer : made.examples) {
    const int64_t whole = length_of(answer);
    cut_answers({&answer}, made);
    if (first_trained(answer) == length_of(answer))
      return dropped(whole, "all trained tokens lie past data.max_length " + format_count(max_length_));
  }
  return made;
}

RowExamples ExampleMaker::make_pair(const AnswersRow& row, RoleTokens* roles) const {
  RowExamples made;
  if (const auto problem = answer_problem(row, roles, made)) return without(std::move(made), *problem);
  Example &chosen = made.examples.at(0), &rejected = made.examples.at(1);
  const int64_t prompt = first_trained(chosen);
  if (first_trained(rejected) != prompt || !std::equal(chosen.ids.begin(), chosen.ids.begin() + prompt, rejected.ids.begin()))
    made.pairs.prompts_differ = 1;
  made.pairs.other_prompts = row.prompts_differ;
  const int64_t whole = length_of(chosen) + length_of(rejected);
  cut_answers({&chosen, &rejected}, made);
  if (reads_margins() && made.cuts.completions > 0)
    return dropped(whole, "an answer does not end within data.max_length " + format_count(max_length_) + ", and its score is read at its end");
  made.dropped = true;
  made.pairs.equal = chosen.ids == rejected.ids;
  if (made.pairs.equal)
    return without(made, "chosen and rejected are the same tokens" + std::string(made.truncated ? " after cutting" : ""));
  if (first_trained(chosen) == length_of(chosen) || first_trained(rejected) == length_of(rejected))
    return dropped(whole, "all trained tokens of an answer lie past data.max_length " + format_count(max_length_));
  made.dropped = false;
  if (reads_margins() && row.margin != 0) made.labels[0] += " by " + format_number(row.margin);
  const int64_t better = length_of(chosen) - first_trained(chosen), worse = length_of(rejected) - first_trained(rejected);
  made.pairs.longest = length_of(chosen) + length_of(rejected);
  made.pairs.chosen_longer = better > worse;
  made.pairs.rejected_longer = worse > better;
  made.pairs.chosen_tokens = better;
  made.pairs.rejected_tokens = worse;
  if (objective_.as<LikelihoodBeside>().nll_on == NllOn::all && chosen.ids.size() > 1)
    for (size_t i = 1; i < chosen.supervised.size(); ++i)
      if (chosen.supervised[i] == 0) chosen.supervised[i] = kLikelihoodOnly;
  return made;
}

}  // namespace forge
