#pragma once
// Matches patterns that come from outside: PCRE2 with limits on steps, depth, memory and time, so
// that no pattern and no text can block a program. Giving up is reported and never taken for "no
// match".
#include <chrono>
#include <span>
#include <string>
#include <string_view>

struct pcre2_real_code_8;

namespace forge::text {

// Time limit of all matches in one text: 2 s of this thread's time, and 2 s more per MiB. Few steps
// at every place of a long text cost as much as many steps at one place.
struct MatchPatience {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  // Seconds of this thread, read only after a long wait by the wall clock.
  double processor_start = -1;

  bool is_out(size_t text_bytes);
};

struct BoundedMatch {
  // Begin and end in bytes of the whole match, then of its groups (past the text for a group that
  // took no part); empty without a match. The thread's next match overwrites them.
  std::span<const size_t> ranges = {};
  std::string gave_up = {};  // the reason why there is no answer; empty if there is one
  size_t from = 0;           // where the match gave up
};

// Returns the first match in text[from, …). `text` must be valid UTF-8; `code` must be compiled
// with PCRE2_USE_OFFSET_LIMIT.
BoundedMatch bounded_match(const pcre2_real_code_8* code, std::string_view text, size_t from,
                           MatchPatience& patience);

std::string pcre_message(int code);

}  // namespace forge::text
