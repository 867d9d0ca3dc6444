#pragma once
// Counts of what was taken from rows by data.overlong, and by a chat template that does not write
// all of an answer. Also counts of pairs of answers.
#include <algorithm>
#include <cstdint>

namespace forge {

// A count, and its key in the summary of a split.
template <class Counts>
struct CountField {
  const char* key;
  int64_t Counts::*member;
};

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
};
inline constexpr CountField<CutCounts> kCutCounts[] = {
    {"prompts_cut", &CutCounts::prompts}, {"completions_cut", &CutCounts::completions},
    {"tokens_cut", &CutCounts::tokens},   {"tokens_dropped", &CutCounts::dropped_tokens},
    {"unsaid", &CutCounts::unsaid},       {"unsaid_tools", &CutCounts::unsaid_tools},
    {"endless", &CutCounts::endless},     {"bare_prompts", &CutCounts::bare_prompts},
    {"unknown", &CutCounts::unknown},     {"glued", &CutCounts::glued}};
inline CutCounts& operator+=(CutCounts& counts, const CutCounts& more) {
  for (const auto& [key, member] : kCutCounts) counts.*member += more.*member;
  return counts;
}

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
};
// All but `longest`, which is no sum.
inline constexpr CountField<PairCounts> kPairCounts[] = {{"equal_pairs", &PairCounts::equal},
                                                         {"one_side_cut", &PairCounts::one_side_cut},
                                                         {"prompts_differ", &PairCounts::prompts_differ},
                                                         {"other_prompts", &PairCounts::other_prompts},
                                                         {"chosen_longer", &PairCounts::chosen_longer},
                                                         {"rejected_longer", &PairCounts::rejected_longer},
                                                         {"chosen_tokens", &PairCounts::chosen_tokens},
                                                         {"rejected_tokens", &PairCounts::rejected_tokens},
                                                         {"desirable", &PairCounts::desirable},
                                                         {"undesirable", &PairCounts::undesirable}};
inline PairCounts& operator+=(PairCounts& counts, const PairCounts& more) {
  for (const auto& [key, member] : kPairCounts) counts.*member += more.*member;
  counts.longest = std::max(counts.longest, more.longest);
  return counts;
}

}  // namespace forge
