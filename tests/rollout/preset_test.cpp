// Tests named algorithms, which are grpo with other keys. Keys without effect are refused by name.
#include "core/job/diagnostics.h"
#include "core/job/names.h"
#include "tests/rollout/rollouts.h"

using namespace forge;

namespace {

std::string refusal(const std::string& objective, const std::string& more = "") {
  try {
    job_with(objective, more);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("presets in their long form") {
  const ObjectiveConfig gspo = objective_with("gspo");
  CHECK(gspo.type() == ObjectiveType::grpo);
  CHECK(gspo.as<GrpoConfig>().ratio == PolicyRatio::sequence);
  CHECK(gspo.as<PolicyConfig>().mean == MeanOf::sequence);
  CHECK(gspo.as<PolicyConfig>().clip_low == 3e-4);
  CHECK(gspo.as<PolicyConfig>().clip_high == 4e-4);
  const ObjectiveConfig rloo = objective_with("{type: rloo, kl: {weight: 0.1}}");
  CHECK(rloo.as<GrpoConfig>().ratio == PolicyRatio::sum);
  CHECK(rloo.as<GrpoConfig>().baseline == Baseline::others);
  CHECK(rloo.as<PolicyConfig>().kl.weight == 0.1);  // the job's own value is kept
  CHECK(rloo.as<PolicyConfig>().kl.in == KlPlace::reward);
  CHECK(objective_with("dr_grpo").as<PolicyConfig>().mean == MeanOf::constant);
  CHECK(objective_with("cispo").as<PolicyConfig>().clip_high == 4);
  CHECK(objective_with("sapo").as<GrpoConfig>().policy == PolicyTerm::sapo);
  CHECK(objective_with("gepo").as<GrpoConfig>().ratio == PolicyRatio::group);
  CHECK(objective_with("reinforce++").as<PolicyConfig>().advantage_scale == AdvantageScale::batch);
  const ObjectiveConfig vapo = objective_with("vapo");
  CHECK(vapo.type() == ObjectiveType::ppo);
  CHECK(vapo.as<PolicyConfig>().advantage_scale == AdvantageScale::batch);
  CHECK(vapo.as<PpoConfig>().lambda_length == 0.05);
  CHECK(vapo.as<PpoConfig>().lambda_value == 1);
  CHECK(vapo.as<PpoConfig>().value.pretrain_steps == 50);
  CHECK(vapo.as<PpoConfig>().success_nll == 0.1);
  CHECK_FALSE(objective_with("{type: vapo, lambda_policy: 0.9}").as<PpoConfig>().lambda_length.has_value());
  CHECK(objective_with("ppo").as<PolicyConfig>().advantage_scale == AdvantageScale::batch);
  CHECK(objective_with("{type: ppo, advantage: {scale: none}}").as<PolicyConfig>().advantage_scale == AdvantageScale::none);
  const Job dapo = job_with("dapo");
  CHECK(dapo.rollout.dynamic_sampling.reward == "exact");
  CHECK(dapo.objective.as<PolicyConfig>().clip_high == 0.28);
  CHECK(dapo.data.overlong == Overlong::drop);
}

TEST_CASE("keys that would do nothing, or not what they say, are refused by name") {
  const auto refuses = [](const std::string& objective, const std::string& more, const std::string& key) {
    const std::string text = refusal(objective, more);
    INFO(objective << "\n" << more << "\n" << text);
    CHECK(text.find(key) != std::string::npos);
  };
  refuses("{type: grpo, policy: sapo, clip_low: 0.1}", "", "objective.clip_low");
  refuses("{type: grpo, policy: cispo, clip_high: 0.2}", "", "objective.clip_high");
  refuses("{type: grpo, policy: cispo, dual_clip: 3}", "", "objective.dual_clip");
  refuses("{type: grpo, policy: reinforce, ratio: sequence}", "", "objective.ratio");
  refuses("{type: grpo, kl: {estimator: k2}}", "", "objective.kl.estimator");
  refuses("{type: grpo, kl: {weight: 0.1, estimator: k1}}", "", "objective.kl.estimator");
  refuses("{type: grpo, advantage: {baseline: none}}", "", "objective.advantage.scale");
  refuses("{type: grpo, updates_per_rollout: 9}", "", "objective.updates_per_rollout");
  refuses("{type: grpo, beta: 0.1}", "", "objective.beta");
  refuses("grpo", "train: {global_batch_size: 4}", "train.global_batch_size");
  refuses("grpo", "eval: {samples: 4}", "eval.samples");
  refuses("grpo", "eval: {prompts: 4}", "eval.prompts");
  refuses("{type: sft, policy: clip}", "", "objective.policy");
  refuses("sft", "", "rewards");
  refuses("{type: ppo, ratio: sequence}", "", "objective.ratio");
  refuses("{type: ppo, advantage: {baseline: none}}", "", "objective.advantage.baseline");
  refuses("{type: ppo, advantage: {scale: group}}", "", "objective.advantage.scale");
  refuses("{type: ppo, lambda_policy: 0.5, lambda_length: 0.05}", "", "objective.lambda_policy");
  refuses("{type: ppo, value: {pretrain_steps: 5}}", "train: {max_steps: 5}", "objective.value.pretrain_steps");
  refuses("{type: grpo, value: {clip: 0.1}}", "", "objective.value.clip");
  CHECK(refusal("grpo").empty());
  CHECK(refusal("ppo").empty());
}
