#pragma once
// Scores the engine's completions: the program has the text, the rows and the processes.
//
//   RewardHost host(plan);
//   engine.answer([&](const AnswerPort& c) { return host.answer(event, c); });   // of an event `score`
//
// Reward models are asked through the engine, which holds them: the host sends their tokens, and
// gets their scores. If the job has tools, the host also answers the calls of a completion.
#include <map>
#include <memory>
#include <optional>

#include "core/data/dataset.h"
#include "core/job/secrets.h"
#include "core/learn/reward/rewards.h"
#include "core/plan/plan.h"
#include "core/run/host/answer_thread.h"
#include "core/run/host/judge_text.h"
#include "core/run/model_text.h"

namespace forge {

class RewardHost {
 public:
  // Reads the rows of both splits and compiles patterns; starts no process. Throws KeyError(job),
  // Error(data).
  // The job's secrets, and those that processes get by name, are removed from everything that
  // judges and tools say.
  RewardHost(const Plan& plan, std::vector<Secret> secrets);

  // Answers `score` with {"items": [{"parts": [{"score", "reason"}], "total", "reason", "text",
  // "transcript", "prompt_text"}]}, in the order of the event's items. Throws what Rewards::score
  // throws, and ScoringStopped.
  Json answer(const Json& event, const AnswerPort& engine);

  // Answers an event `call` with {"items": [{"ids", "failure"}]}: `ids` are the tokens that follow
  // the turn, null if the completion is over. Throws what ChildPool::ask throws.
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
