#pragma once
// What a rollout's file keeps for a run that was killed: scores, what tools answered, and what a server drew. All of it might
// come otherwise a second time.
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/rollout/rollout.h"

namespace forge {

class RecordedRollout {
 public:
  RecordedRollout() = default;
  // Reads a file that may not be there. A line that cannot be read, or has not the hash that it states, is left out.
  explicit RecordedRollout(const std::string& path);
  // The number of lines left out, but for a last one that a kill cut short.
  int64_t damaged() const { return damaged_; }

  // Its scores, if the line is of the same completion: the same prompt, sample and ids.
  bool take_scores(const std::vector<RewardConfig>& rewards, Completion& completion) const;
  // All that was drawn, if it was by the same adapter.
  bool take_draw(const std::string& adapter, Completion& completion) const;

  // What followed the ids that a completion has so far: more ids, or nothing, since it was over. Null: it is another one.
  struct Answer {
    std::vector<int32_t> ids;
    bool over = false, truncated = false;
    std::string failure;
  };
  std::optional<Answer> tool_answer(const Completion& completion) const;

 private:
  const Json* line_of(const Completion& completion) const;
  int64_t damaged_ = 0;
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, Json> lines_;  // by prompt, draw, place, sample
};

}  // namespace forge
