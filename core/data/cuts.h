#pragma once
// What data.overlong took from rows.
#include <cstdint>

namespace forge {

struct CutCounts {
  int64_t prompts = 0;         // cut to data.max_prompt_length
  int64_t completions = 0;     // cut to data.max_completion_length
  int64_t tokens = 0;          // taken from rows that were kept, by truncate
  int64_t dropped_tokens = 0;  // of rows that were dropped
  CutCounts& operator+=(const CutCounts& other);
};

}  // namespace forge
