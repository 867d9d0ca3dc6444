#pragma once
// Counts of what was taken from rows by data.overlong, and by a chat template that does not write
// all of an answer. Also counts of pairs of answers.
#include <algorithm>
#include <cstdint>

namespace forge {

struct CutCounts {
  int64_t prompts = 0;         // cut to data.max_prompt_length
  int64_t completions = 0;     // cut to data.max_completion_length
  int64_t tokens = 0;          // taken from rows that were kept, by truncate
  int64_t dropped_tokens = 0;  // of rows that were dropped
  int64_t unsaid = 0;  // parts of trained answers that the chat template leaves out: a thought, a tool call
  int64_t unsaid_tools = 0;  // rows whose tools it leaves out
  int64_t endless = 0;       // trained answers after which the chat template writes no special token: no end is learned
  int64_t bare_prompts = 0;  // rows whose prompt is a text, which no chat template goes around
  int64_t unknown = 0;       // tokens of rows that are the tokenizer's unknown token: text that is lost
  int64_t glued = 0;         // answers whose first letters share a token with the prompt, and are not trained
  CutCounts& operator+=(const CutCounts& other) {
    prompts += other.prompts, completions += other.completions, tokens += other.tokens;
    dropped_tokens += other.dropped_tokens, unsaid += other.unsaid;
    unsaid_tools += other.unsaid_tools, endless += other.endless, bare_prompts += other.bare_prompts;
    unknown += other.unknown, glued += other.glued;
    return *this;
  }
};

// Counts of pairs of answers, for objectives that compare them.
struct PairCounts {
  int64_t longest = 0;              // tokens of both sides together; 0: there are no pairs
  int64_t equal = 0;                // dropped: both answers are the same tokens. Part of DataSummary::dropped
  int64_t one_side_cut = 0;         // one answer was cut, the other not
  int64_t prompts_differ = 0;       // the last token of the prompt is another one beside one of the answers
  int64_t other_prompts = 0;        // chosen and rejected answer different prompts
  int64_t chosen_longer = 0;        // answers of equal length count for neither
  int64_t rejected_longer = 0;
  int64_t chosen_tokens = 0, rejected_tokens = 0;  // of the answers
  int64_t desirable = 0, undesirable = 0;          // answers, where they are judged one by one
  PairCounts& operator+=(const PairCounts& more) {
    longest = std::max(longest, more.longest);
    equal += more.equal, one_side_cut += more.one_side_cut, prompts_differ += more.prompts_differ;
    other_prompts += more.other_prompts;
    chosen_longer += more.chosen_longer, rejected_longer += more.rejected_longer;
    chosen_tokens += more.chosen_tokens, rejected_tokens += more.rejected_tokens;
    desirable += more.desirable, undesirable += more.undesirable;
    return *this;
  }
};

}  // namespace forge
