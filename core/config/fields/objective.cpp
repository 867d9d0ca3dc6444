// Keys of the section objective.
#include "core/config/field_builder.h"
#include "core/config/fields.h"

namespace forge {
namespace {

std::vector<Field> advantage_fields() {
  return {
      key("baseline", &AdvantageConfig::baseline,
          "grpo: what a completion's reward is compared with: the mean of its group (group), the mean of "
          "the rest of its group (others), or nothing (none)."),
      key("scale", &AdvantageConfig::scale,
          "grpo, ppo: what the advantage is divided by: the standard deviation of the group, that of the whole "
          "rollout (batch), or nothing (none)."),
  };
}

std::vector<Field> kl_fields() {
  return {
      key("weight", &KlConfig::weight,
          "grpo, ppo: weight of the KL divergence from the base model. With 0 no reference model is needed.").at_least(0),
      key("measure", &KlConfig::measure,
          "grpo, ppo: with weight 0, compute and report the divergence all the same, for one forward pass more of every completion."),
      key("estimator", &KlConfig::estimator,
          "grpo, ppo: how the KL divergence of a token is estimated from the difference x of the "
          "log-probabilities: x (k1), x²/2 (k2) or e^−x − 1 + x (k3). In the loss, k2 and k3 have the "
          "gradient of the divergence itself; k1 has zero gradient on average and is refused there."),
      key("in", &KlConfig::in,
          "grpo, ppo: add the divergence to the loss of each token, or subtract its sum over the completion "
          "from the reward."),
  };
}

std::vector<Field> value_fields() {
  return {
      key("clip", &ValueConfig::clip,
          "ppo: a value further than this from the old one is clipped in the value loss. With 0 there is no clipping.")
          .at_least(0),
      key("learning_rate_ratio", &ValueConfig::learning_rate_ratio,
          "ppo: learning rate of the value network divided by that of the policy.")
          .above(0),
      key("pretrain_steps", &ValueConfig::pretrain_steps,
          "ppo: number of steps at the start in which only the value network is trained.")
          .at_least(0)
          .unit("steps"),
  };
}

}  // namespace

std::vector<Field> objective_fields() {
  return {
      key("type", &ObjectiveConfig::type,
          "What is minimized. From text: the loss on the answers (sft) or on everything (pretrain). From "
          "pairs of a chosen and a rejected answer: a preference loss with a reference model (dpo) or "
          "without one (simpo, orpo, cpo), or a model that scores answers (reward). From single answers "
          "labeled good or bad: kto. From rewards of completions that the model samples itself: grpo, "
          "which compares them within a group, or ppo, which trains a value network beside the policy. "
          "dr_grpo, dapo, gspo, cispo, sapo, gepo, rloo and reinforce++ are short for grpo with other "
          "settings, vapo for ppo with other settings; forge plan shows them.")
          .also({"dr_grpo", "dapo", "gspo", "cispo", "sapo", "gepo", "rloo", "reinforce++", "vapo"})
          .makes_examples(),
      key("train_on", &ObjectiveConfig::train_on,
          "Which tokens contribute to the loss: every assistant turn, the last one, each assistant turn as "
          "an example of its own with the turns before it as context, the completion of a prompt-completion "
          "pair, or all tokens.")
          .makes_examples(),
      key("label_smoothing", &ObjectiveConfig::label_smoothing,
          "Label smoothing: the share of the target probability that is spread evenly over the "
          "vocabulary.")
          .at_least(0)
          .below(1),
      key("z_loss", &ObjectiveConfig::z_loss,
          "Coefficient of the z-loss, logsumexp², which keeps logits small.")
          .at_least(0),
      key("loss", &ObjectiveConfig::loss, "dpo: the loss of a pair. forge plan prints its formula."),
      key("beta", &ObjectiveConfig::beta,
          "dpo, simpo, cpo, kto: how strongly the loss separates the answers. In dpo and kto, a smaller "
          "value lets the model move farther from the reference.")
          .above(0)
          .when_unset("0.1; simpo 2"),
      key("label_flip", &ObjectiveConfig::label_flip,
          "dpo: assumed share of pairs whose labels are swapped (loss sigmoid, robust or exo_pair).")
          .at_least(0)
          .below(0.5),
      key("nll_weight", &ObjectiveConfig::nll_weight,
          "Weight of the chosen answer's negative log-likelihood (mean over its tokens), added to the "
          "preference loss.")
          .at_least(0)
          .when_unset("0; orpo and cpo 1"),
      key("nll_mean", &ObjectiveConfig::nll_mean,
          "How that likelihood is averaged: over the tokens of each chosen answer (pair), or over the "
          "tokens of all chosen answers of the step (token).")
          .when_unset("pair"),
      key("nll_on", &ObjectiveConfig::nll_on,
          "Which tokens of the chosen text that likelihood covers: those of the answer (completion), or the prompt's as well (all), as "
          "TRL's ORPO and CPO have it.")
          .makes_examples(),
      key("gamma", &ObjectiveConfig::gamma, "simpo: target margin between the two answers.").at_least(0),
      key("odds_weight", &ObjectiveConfig::odds_weight, "orpo: weight of the odds-ratio term.").above(0),
      key("desirable_weight", &ObjectiveConfig::desirable_weight,
          "kto: weight of the good answers. forge plan shows the ratio of good to bad ones and suggests a "
          "weight.")
          .above(0),
      key("undesirable_weight", &ObjectiveConfig::undesirable_weight, "kto: weight of the bad answers.").above(0),
      key("center", &ObjectiveConfig::center,
          "reward: coefficient of the squared sum of a pair's two rewards, which keeps rewards centered "
          "at 0.")
          .at_least(0),
      key("reference", &ObjectiveConfig::reference,
          "dpo, kto: the reference model: the base model without the adapter (base), or the model as it "
          "is when training starts (start). They differ only if adapter.init_from continues an adapter; "
          "auto then uses start, otherwise base.")
          .automatic(),
      key("reference_cache", &ObjectiveConfig::reference_cache,
          "dpo, kto: compute the reference log-probabilities once, before the first step, instead of in "
          "every step.")
          .automatic(),
      key("policy", &ObjectiveConfig::policy,
          "grpo: the loss, given the ratio r of new to old probability: clipped (clip), a capped weight "
          "on the log-probability (cispo), a smooth gate (sapo), or the log-probability alone "
          "(reinforce)."),
      key("ratio", &ObjectiveConfig::ratio,
          "grpo: what r is the ratio of: each token's probability (token), their geometric mean over the "
          "completion (sequence), their product (sum), or the completion's probability over its group's "
          "expectation (group)."),
      key("clip_low", &ObjectiveConfig::clip_low,
          "grpo, ppo: r is clipped from below at 1 minus this (policy clip).").at_least(0).below(1),
      key("clip_high", &ObjectiveConfig::clip_high,
          "grpo, ppo: r is clipped from above at 1 plus this (policy clip, cispo).").at_least(0),
      key("dual_clip", &ObjectiveConfig::dual_clip,
          "grpo, ppo: upper limit of r for completions with a negative advantage (policy clip).")
          .above(1)
          .when_unset("no limit"),
      key("mean", &ObjectiveConfig::mean,
          "grpo, ppo: how the loss of a step is averaged: over its trained tokens (token), over completions "
          "after averaging each over its own tokens (sequence), or divided by completions times "
          "rollout.max_new_tokens (constant)."),
      section("advantage", &ObjectiveConfig::advantage, "grpo, ppo: how rewards become advantages.", advantage_fields()),
      section("kl", &ObjectiveConfig::kl, "grpo, ppo: the divergence from the base model.", kl_fields()).shorthand("weight"),
      key("entropy_weight", &ObjectiveConfig::entropy_weight, "grpo, ppo: weight of the entropy bonus.")
          .at_least(0),
      key("updates_per_rollout", &ObjectiveConfig::updates_per_rollout,
          "grpo, ppo: number of optimizer steps a rollout is split into, by prompts.")
          .range(1, 4096)
          .unit("steps"),
      key("epochs_per_rollout", &ObjectiveConfig::epochs_per_rollout,
          "grpo, ppo: number of passes over each rollout.")
          .range(1, 64),
      key("mask_truncated", &ObjectiveConfig::mask_truncated,
          "grpo, ppo: exclude completions from the loss that were cut off at rollout.max_new_tokens."),
      key("gamma_discount", &ObjectiveConfig::gamma_discount,
          "ppo: discount factor γ of the rewards that follow a token.")
          .above(0)
          .range(0, 1),
      key("lambda_policy", &ObjectiveConfig::lambda_policy,
          "ppo: λ of the generalized advantage estimates that train the policy.")
          .range(0, 1),
      key("lambda_value", &ObjectiveConfig::lambda_value,
          "ppo: λ of the returns that train the value network.")
          .range(0, 1),
      key("lambda_length", &ObjectiveConfig::lambda_length,
          "ppo: replaces lambda_policy: λ of a completion of n tokens is 1 − 1 / (this · n), at least 0 (vapo: 0.05).")
          .above(0)
          .when_unset("lambda_policy"),
      key("success_nll", &ObjectiveConfig::success_nll,
          "ppo: weight of the negative log-likelihood of successful completions: those that the first entry of "
          "rewards scores 1 or more.")
          .at_least(0),
      section("value", &ObjectiveConfig::value,
              "ppo: the value network: the same base with its own adapter (with adapter none, a copy of all "
              "weights) and a head with one output.",
              value_fields()),
  };
}

}  // namespace forge
