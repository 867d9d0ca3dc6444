#pragma once
// What was taken from rows: by data.overlong, and by a chat template that does not write all of an answer.
#include <cstdint>

namespace forge {

struct CutCounts {
  int64_t prompts = 0;         // cut to data.max_prompt_length
  int64_t completions = 0;     // cut to data.max_completion_length
  int64_t tokens = 0;          // taken from rows that were kept, by truncate
  int64_t dropped_tokens = 0;  // of rows that were dropped
  int64_t unsaid = 0;  // parts of trained answers that the chat template leaves out: a thought, a tool call
  CutCounts& operator+=(const CutCounts& other) {
    prompts += other.prompts, completions += other.completions, tokens += other.tokens;
    dropped_tokens += other.dropped_tokens, unsaid += other.unsaid;
    return *this;
  }
};

}  // namespace forge
