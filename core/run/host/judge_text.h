#pragma once
// Completions as text for a reward model: its own tokenizer and chat template, tokens as in its
// training.
#include <memory>
#include <vector>

#include "core/data/examples/examples.h"
#include "core/learn/reward/score.h"
#include "core/plan/files/judge_model.h"
#include "core/run/model_text.h"

namespace forge {

struct JudgedTexts {
  std::vector<std::vector<int32_t>> ids;  // of the texts that can be asked about
  std::vector<Score> all;                 // of each sample; failed where it cannot be asked about
  std::vector<size_t> asked;              // for each of `ids`, the index of its sample

  // Returns the scores, from the model's answer for each of `ids`: a list of numbers, null where
  // one is not finite.
  std::vector<Score> scores(const Json& values) const;
};

class JudgeText {
 public:
  // Throws Error(environment) for a folder that is no reward model. `longest` is the most tokens of
  // a text; 0: as many as the model reads.
  explicit JudgeText(const JudgeModel& judge, int64_t longest = 0);
  JudgedTexts encode(const std::vector<RewardSample>& samples) const;

 private:
  std::unique_ptr<ModelText> text_;  // the maker refers to it
  std::unique_ptr<ExampleMaker> maker_;
  int64_t longest_;
};

}  // namespace forge
