#pragma once
// Scores the engine's completions: the program has the text, the rows and the processes.
//
//   RewardHost host(plan);
//   engine.answer([&](const AnswerPort& c) { return host.answer(event, c); });   // of an event `score`
//
// Reward models are asked through the engine, which holds them: the host says their tokens, and hears their scores. Where the job
// has tools it answers what a completion calls, too.
#include <map>
#include <memory>
#include <optional>

#include "core/config/secrets.h"
#include "core/plan/plan.h"
#include "core/reward/rewards.h"
#include "core/rollout/host/answer_thread.h"
#include "core/rollout/host/judge_text.h"
#include "core/run/model_text.h"

namespace forge {

class RewardHost {
 public:
  // Reads the rows of both splits, compiles patterns; starts no process. Throws KeyError(job), Error(data).
  // Nothing that judges and tools say shows the job's secrets, or those that processes get by name.
  RewardHost(const Plan& plan, std::vector<Secret> secrets);

  // {"items": [{"parts": [{"score", "reason"}], "total", "reason", "text", "prompt_text"}]}, in the order of the event's. Throws
  // as Rewards::score, and ScoringStopped.
  Json answer(const Json& event, const AnswerPort& engine);

  // Of an event `call`: {"items": [{"ids": what follows the turn, null where the completion is over, "failure"}]}. Throws as
  // ChildPool::ask.
  Json answer_calls(const Json& event, const AnswerPort& engine);

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
  Side read_side(const DataSet& data, const std::vector<DataSource>& sources) const;
  std::vector<Score> judged(const RewardConfig& reward, const std::vector<RewardSample>& samples, const AnswerPort& engine);
  RewardSample sample_of(const Json& item, const Side& side) const;
  Json insertion(const Json& item, const PromptRow& row, const ChildReply& answered) const;

  const std::vector<Secret> secrets_;
  ModelText text_;
  Rewards rewards_;
  std::optional<ChildPool> tools_;
  bool tools_must_answer_ = false;
  std::map<std::string, JudgeText> judges_;  // by the name of a reward of type model
  std::map<std::string, Side> sides_;  // train, eval
};

}  // namespace forge
