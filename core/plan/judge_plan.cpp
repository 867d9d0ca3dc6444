#include "core/plan/judge_plan.h"

#include <algorithm>
#include <filesystem>

#include "core/lib/base/file.h"
#include "core/lib/base/key_error.h"
#include "core/lib/base/text.h"
#include "core/model/families/adapter_folder.h"
#include "core/model/families/parameters.h"
#include "core/plan/inventory.h"
#include "core/plan/step_choice.h"

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
    if (reward.type != RewardType::model) continue;
    judges.push_back(read_judge(*reward.path));
    judges.back().reward = reward.name;
  }
  return judges;
}

void require_judges(const Plan& plan, const Provider& provider) {
  for (const JudgeModel& judge : judges_of(plan.job)) {
    const std::vector<std::string> faults = provider.faults(judge_shape(plan, judge));
    if (!faults.empty())
      throw KeyError(ErrorKind::job, "provider", std::string(provider.name) + " cannot compute reward " + judge.reward + ": " + join(faults, "; "),
                     "write provider: reference");
  }
}

int64_t longest_judged(const Job& job, const ModelSpec& judge) {
  const int64_t most = 2 * job.data.max_length;
  return judge.max_position_embeddings > 0 ? std::min(most, judge.max_position_embeddings) : most;
}

std::vector<MemoryLine> judge_fixed_lines(const Plan& plan, const JudgeModel& judge) {
  Job job = plan.job;
  job.model.quantization = Quantization::none;
  job.adapter = judge.config;
  job.optimizer.type = OptimizerType::sgd;
  std::vector<Parameter> parameters = run_parameters(judge.spec, judge.config, Quantization::none);
  if (judge.adapter.empty())
    for (Parameter& parameter : parameters) parameter.trainable = false;
  const Precision precision = *plan.job.train.precision;
  std::vector<MemoryLine> lines = fixed_lines(parameters, job, precision, precision, false);
  std::erase_if(lines, [](const MemoryLine& line) { return line.name == "gradients" || line.name == "optimizer state"; });
  for (MemoryLine& line : lines) line.name = "reward " + judge.reward + ": " + line.name;
  return lines;
}

ActivationShape judge_shape(const Plan& plan, const JudgeModel& judge) {
  const int64_t tokens = longest_judged(plan.job, judge.spec);
  ActivationShape shape;
  shape.spec = judge.spec;
  shape.adapter = judge.config;
  shape.residual = residual_of(plan.job);
  record_modules(shape, judge.sites);
  shape.precision = shape.storage = *plan.job.train.precision;
  shape.cuda = plan.device.cuda;
  shape.capability = plan.device.gpu.compute_capability;
  shape.multiprocessors = multiprocessors_of(plan.device);
  shape.micro_batch_tokens = shape.longest_sequence = tokens;
  shape.supervised_tokens = tokens / 2 + 1;  // a text has two tokens at least
  shape.threads = plan.device.cuda ? 0 : *plan.job.train.threads;
  shape.training = false;
  shape.folded_residuals = folds_residuals(plan);
  return shape;
}

}  // namespace forge
