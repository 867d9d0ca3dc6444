#pragma once
// Scores texts with the reward models of a policy. The program sends the texts as tokens.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/plan/files/judge_model.h"
#include "core/train/session.h"
#include "core/train/step.h"

namespace forge {

// Returns the score of each text by its last token, computed `batch_tokens` tokens at a time (a
// longer text alone). Throws StepInterrupted.
std::vector<double> text_scores(Network& network, const Model& model, const std::vector<std::vector<int32_t>>& texts,
                                int64_t batch_tokens, const StopFlag& stop);

class Judges {
 public:
  // Loads the reward models of the job, if any.
  explicit Judges(const Session& session);
  // Returns the scores of texts by the reward of that name.
  std::vector<double> scores(const std::string& reward, const std::vector<std::vector<int32_t>>& texts, const StopFlag& stop);

 private:
  struct Judge {
    Judge(const Session& session, const JudgeModel& files);
    LoadedModel loaded;
    Job job;
    int64_t tokens;
    std::unique_ptr<StepProvider> provider;
    std::unique_ptr<Network> network;
  };
  std::map<std::string, std::unique_ptr<Judge>> judges_;
};

}  // namespace forge
