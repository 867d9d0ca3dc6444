#pragma once
// A completion to be scored, and the score that one reward gives it.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/lib/base/error.h"
#include "core/lib/io/json.h"

namespace forge {

struct RewardSample {
  int64_t id = 0;      // unique in its batch
  int64_t group = 0;   // completions of the same prompt have the same
  std::string prompt;  // as text; for a conversation its last message
  Json messages;       // the conversation before the completion; null for a text
  std::string completion;  // the last turn, where there are several
  // All turns of a completion of several turns, with inserts of tools and control tokens; else
  // empty.
  std::string transcript;
  // Tokens of the completion, without an end token; nothing if they were not counted.
  std::optional<int64_t> tokens;
  bool truncated = false;           // it ended at a limit
  std::shared_ptr<const Json> row;  // all columns
  std::string place;                // "rows.jsonl:3", for messages
};

// A score, or why there is none. A missing score is never 0: the completion is then unscored, or
// the run stops. A policy whose judge's time-outs and exceptions count as 0, as in verl, learns to
// make its judge fail. An answer that cannot be read is wrong, since the model wrote it; a
// reference that cannot be read is a failure, since the row is at fault.
struct Score {
  std::optional<double> value;
  std::string reason;  // in a few words: "7 is not 8"
  // The kind of what went wrong; with neither value nor failure, the verifier declined to judge.
  std::optional<ErrorKind> failure = std::nullopt;
  Json parts = nullptr;  // numbers by name that a process adds; null without

  static Score of(double value, std::string reason = "") { return {value, std::move(reason)}; }
  // Returns a failure of the row or the verifier.
  static Score failed(std::string reason, ErrorKind kind = ErrorKind::data) {
    return {std::nullopt, std::move(reason), kind};
  }
  static Score declined(std::string reason) { return {std::nullopt, std::move(reason)}; }
};

// Thrown by a verifier that cannot judge a completion: its score is then a failure.
struct CannotJudge {
  std::string reason;
  ErrorKind kind = ErrorKind::data;
};

// Thrown when scores are no longer needed.
struct ScoringStopped {};

// Returns the form in which processes and servers that score a completion receive it
// (docs/rewards.md).
Json reward_item(const RewardSample& sample, int64_t step);

// A pure function of the sample, for any thread.
using Verifier = std::function<Score(const RewardSample&)>;

}  // namespace forge
