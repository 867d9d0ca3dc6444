#pragma once
// Matching patterns that come from outside: PCRE2 with limits on steps, depth, memory and time, so that no pattern and
// no text can hold a program up. Giving up is said, never taken for "no match".
#include <chrono>
#include <span>
#include <string>
#include <string_view>

struct pcre2_real_code_8;

namespace forge::text {

// How long the matches in one text may take together: 2 s of this thread's time, and 2 s more per MiB.
// Few steps at every place of a long text are as bad as many at one.
struct MatchPatience {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  double processor_start = -1;  // seconds of this thread, read only when the clock has gone on for long

  bool is_out(size_t text_bytes);
};

struct BoundedMatch {
  // Begin and end in bytes of the whole match, then of its groups (past the text for a group that took no part); empty
  // without a match. Overwritten by the thread's next match.
  std::span<const size_t> ranges = {};
  std::string gave_up = {};  // why there is no answer; empty when there is one
  size_t from = 0;           // where it gave up
};

// The first match in text[from, …). `text` must be valid UTF-8; `code` must be compiled with PCRE2_USE_OFFSET_LIMIT.
BoundedMatch bounded_match(const pcre2_real_code_8* code, std::string_view text, size_t from,
                           MatchPatience& patience);

std::string pcre_message(int code);

}  // namespace forge::text
