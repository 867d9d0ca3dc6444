#pragma once
// Scores the engine's completions: the program has the text, the rows and the processes.
//
//   RewardHost host(plan);
//   engine.answer(host.answer(event));   // of an event `score`
#include <map>
#include <memory>

#include "core/plan/plan.h"
#include "core/reward/rewards.h"
#include "core/run/model_text.h"

namespace forge {

class RewardHost {
 public:
  // Reads the rows of both splits, compiles patterns; starts no process. Throws KeyError(job), Error(data).
  explicit RewardHost(const Plan& plan);

  // {"items": [{"parts": [{"score", "reason"}], "total", "reason", "text", "prompt_text"}]}, in the order of the event's. Throws
  // as Rewards::score.
  Json answer(const Json& event);

 private:
  struct PromptRow {
    std::shared_ptr<const Json> row;  // as the file has it
    std::string prompt;
    Json messages;
    std::string place;
  };
  struct Side {
    DataSet data;
    std::vector<PromptRow> rows;  // by example
  };
  static Side read_side(const Job& job, const DataSet& data, const std::vector<DataSource>& sources);
  RewardSample sample_of(const Json& item, const Side& side) const;

  ModelText text_;
  Rewards rewards_;
  std::map<std::string, Side> sides_;  // train, eval
};

}  // namespace forge
