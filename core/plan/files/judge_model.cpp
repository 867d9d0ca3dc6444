#include "core/plan/files/judge_model.h"

#include <algorithm>
#include <filesystem>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/model/families/adapter_folder.h"

namespace forge {

JudgeModel read_judge(const std::string& path) {
  JudgeModel judge{.model = path};
  if (file_exists(path + "/adapter_config.json")) {
    judge.adapter = path;
    judge.model = base_model_of(path);
    if (judge.model.empty() || !std::filesystem::exists(judge.model))
      throw Error(ErrorKind::environment,
                  path + ": is an adapter of " + (judge.model.empty() ? "a model that it does not name" : judge.model) +
                      ", which is not on this machine");
  }
  judge.spec = read_model_spec(judge.model);
  if (!judge.adapter.empty()) {
    const AdapterFile file = read_adapter_config(judge.adapter);
    judge.config = file.config;
    judge.spec = spec_for(file, judge.spec);
    judge.sites = sites_of(file, judge.spec);
  }
  if (!judge.spec.score_head)
    throw Error(ErrorKind::environment, path + ": gives no scores: it has no score head")
        .hint("a reward model comes from objective: reward, or from transformers' AutoModelForSequenceClassification");
  return judge;
}

std::vector<JudgeModel> judges_of(const Job& job) {
  std::vector<JudgeModel> judges;
  for (const RewardConfig& reward : job.rewards) {
    const auto* model = reward.find<ModelReward>();
    if (!model) continue;
    judges.push_back(read_judge(*model->path));
    judges.back().reward = reward.name;
  }
  return judges;
}

int64_t longest_judged(const Job& job, const ModelSpec& judge) {
  const int64_t most = 2 * job.data.max_length;
  return judge.max_position_embeddings > 0 ? std::min(most, judge.max_position_embeddings) : most;
}

}  // namespace forge
