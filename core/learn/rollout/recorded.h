#pragma once
// Reads what a rollout's file keeps for a run that was killed: scores, what tools answered, and
// what a server drew. Each of them might be different a second time.
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/learn/rollout/rollout.h"

namespace forge {

class RecordedRollout {
 public:
  RecordedRollout() = default;
  // Reads a file that may not be there. A line that cannot be read, or has not the hash that it
  // states, is left out.
  explicit RecordedRollout(const std::string& path);
  // Returns the number of lines left out, except for a last one that a kill cut short.
  int64_t damaged() const { return damaged_; }

  // Takes over the completion's scores if the line is of the same completion: the same prompt,
  // sample and ids.
  bool take_scores(const std::vector<RewardConfig>& rewards, Completion& completion) const;
  // Takes over all that was drawn, if the same adapter drew it.
  bool take_draw(const std::string& adapter, Completion& completion) const;

  // Tokens after the ids that a completion has so far: more ids, or none because it was over.
  // tool_answer() returns nothing if the file has another completion.
  struct Answer {
    std::vector<int32_t> ids;
    bool over = false, truncated = false;
    std::string failure;
  };
  std::optional<Answer> tool_answer(const Completion& completion) const;

 private:
  // Returns what `read` makes of the completion's line; nothing if there is none, or it lacks a
  // member.
  template <class Read>
  auto read_line(const Completion& completion, Read read) const -> decltype(read(Json()));
  int64_t damaged_ = 0;
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, Json> lines_;  // by prompt, draw, place, sample
};

}  // namespace forge
