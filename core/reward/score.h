#pragma once
// One completion to be scored, and what one reward says of it.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/io/json.h"

namespace forge {

struct RewardSample {
  int64_t id = 0;      // unique in its batch
  int64_t group = 0;   // completions of the same prompt have the same
  std::string prompt;  // as text; of a conversation its last message
  Json messages;       // the conversation before the completion; null for a text
  std::string completion;  // of several turns the last
  std::string transcript;  // of several turns all of them, with what tools inserted and control tokens; else empty
  std::optional<int64_t> tokens;    // of the completion, without an end token; nothing when nobody counted
  bool truncated = false;           // it ended at a limit
  std::shared_ptr<const Json> row;  // all columns
  std::string place;                // "rows.jsonl:3", for messages
};

// A score, or why there is none. No score is never 0: the completion is then unscored, or the run stops.
struct Score {
  std::optional<double> value;
  std::string reason;  // in a few words: "7 is not 8"
  std::optional<ErrorKind>
      failure;  // what went wrong; neither value nor failure: the verifier declined to judge
  Json parts;   // numbers by name that a process adds; null without

  static Score of(double value, std::string reason = "") {
    return {value, std::move(reason), std::nullopt, nullptr};
  }
  // The row or the verifier is at fault.
  static Score failed(std::string reason, ErrorKind kind = ErrorKind::data) {
    return {std::nullopt, std::move(reason), kind, nullptr};
  }
  static Score declined(std::string reason) {
    return {std::nullopt, std::move(reason), std::nullopt, nullptr};
  }
};

// Thrown where nobody waits for scores any more.
struct ScoringStopped {};

// A pure function of the sample, for any thread.
using Verifier = std::function<Score(const RewardSample&)>;

}  // namespace forge
