// Keys of the section objective.
#include "core/job/field_builder.h"
#include "core/job/fields.h"

namespace forge {
namespace {

// Returns the entry of a key of the types that have the part.
template <class Part, class Member>
Entry own(std::string name, Member Part::*member, std::string doc) {
  return of_part<ObjectiveConfig, Part>(key(std::move(name), member, std::move(doc)));
}

std::vector<Field> advantage_fields() {
  return {
      own("baseline", &GrpoConfig::baseline,
          "reward that a completion's reward is compared with: the mean of its group "
          "(group), the mean of the rest of its group (others), or 0 (none)."),
      own("scale", &PolicyConfig::advantage_scale,
          "divisor of the advantage: the standard deviation of the group (grpo only), "
          "that of the whole rollout (batch), or 1 (none)."),
  };
}

std::vector<Field> kl_fields() {
  return {
      key("weight", &KlConfig::weight,
          "weight of the KL divergence from the base model. With 0, no reference model "
          "is needed unless measure is set.").at_least(0),
      key("measure", &KlConfig::measure,
          "with weight 0, compute and report the divergence anyway. Costs one more "
          "forward pass over every completion."),
      key("estimator", &KlConfig::estimator,
          "estimator of a token's KL divergence, with x the log-probability minus that "
          "of the base model: x (k1), x²/2 (k2) or e^−x − 1 + x (k3). In the loss, k2 and k3 have "
          "the gradient of the divergence itself; k1 has zero gradient on average and is refused."),
      key("in", &KlConfig::in,
          "place of the divergence: added to the loss of each token (loss), or "
          "subtracted from the reward (reward): grpo subtracts its sum over the completion, ppo "
          "subtracts it at each token."),
  };
}

std::vector<Field> value_fields() {
  return {
      key("clip", &ValueConfig::clip,
          "distance from the old value at which a value is clipped in the value loss. 0 "
          "disables clipping.")
          .at_least(0),
      key("learning_rate_ratio", &ValueConfig::learning_rate_ratio,
          "ratio of the value network's learning rate to the policy's.")
          .above(0),
      key("pretrain_steps", &ValueConfig::pretrain_steps,
          "number of initial steps that train only the value network.")
          .at_least(0, "steps"),
  };
}

}  // namespace

std::vector<Field> objective_fields() {
  return {
      type_key<ObjectiveConfig>(
          "Training objective. From text: the loss on the answers (sft) or on everything "
          "(pretrain). From pairs of a chosen and a rejected answer: a preference loss with a "
          "reference model (dpo) or without one (simpo, orpo, cpo), or a model that scores answers "
          "(reward). From single answers labeled good or bad: kto. From rewards of completions "
          "that the model samples itself: grpo, which compares them within a group, or ppo, which "
          "also trains a value network. dr_grpo, dapo, gspo, cispo, sapo, gepo, rloo and "
          "reinforce++ are short for grpo with other settings, vapo for ppo with other settings; "
          "forge plan shows them.")
          .also({"dr_grpo", "dapo", "gspo", "cispo", "sapo", "gepo", "rloo", "reinforce++", "vapo"})
          .makes_examples(),
      own("train_on", &LikelihoodConfig::train_on,
          "tokens that contribute to the loss, which are those of every assistant turn "
          "(assistant), the last one (last_assistant), each assistant turn as an example of its "
          "own with the turns before it as context (each_assistant), the completion of a "
          "prompt-completion pair (completion), or all tokens (all).")
          .makes_examples(),
      own("label_smoothing", &LikelihoodConfig::label_smoothing,
          "share of the target probability that is spread evenly over the vocabulary (label "
          "smoothing).")
          .at_least(0)
          .below(1),
      own("z_loss", &LikelihoodConfig::z_loss,
          "coefficient of the z-loss, logsumexp², which keeps logits small.")
          .at_least(0),
      own("loss", &DpoConfig::loss, "loss of a pair. forge plan prints its formula."),
      own("beta", &Preferring::beta,
          "strength of the preference. In dpo and kto, a smaller value lets "
          "the model move farther from the reference.")
          .above(0)
          .when_unset("0.1; simpo 2"),
      own("label_flip", &DpoConfig::label_flip,
          "assumed share of pairs whose labels are swapped (loss sigmoid, robust or exo_pair).")
          .at_least(0)
          .below(0.5),
      own("nll_weight", &LikelihoodBeside::nll_weight,
          "weight of the chosen answer's negative log-likelihood, which is "
          "added to the preference loss.")
          .at_least(0)
          .when_unset("0; orpo and cpo 1"),
      own("nll_mean", &LikelihoodBeside::nll_mean,
          "averaging of the negative log-likelihood: over the tokens of "
          "each chosen answer (pair), or over the tokens of all chosen answers of the step "
          "(token).")
          .when_unset("pair"),
      own("nll_on", &LikelihoodBeside::nll_on,
          "tokens that the negative log-likelihood covers: those of the "
          "chosen answer (completion), or also those of its prompt (all), as in TRL's ORPO and "
          "CPO.")
          .makes_examples(),
      own("gamma", &SimpoConfig::gamma, "target margin between the two answers.").at_least(0),
      own("odds_weight", &OrpoConfig::odds_weight, "weight of the odds-ratio term.").above(0),
      own("desirable_weight", &KtoConfig::desirable_weight,
          "weight of the good answers. forge plan shows the ratio of good to bad ones and suggests a "
          "weight.")
          .above(0),
      own("undesirable_weight", &KtoConfig::undesirable_weight, "weight of the bad answers.").above(0),
      own("center", &RewardModelConfig::center,
          "coefficient of the squared sum of a pair's two rewards, which keeps rewards centered "
          "at 0.")
          .at_least(0),
      own("reference", &Referenced::reference,
          "reference model: the base model without the adapter (base), or the model at "
          "the start of training (start). auto uses start if all weights are trained, if "
          "adapter.init_from continues an adapter, and with use_dora or init: pissa or olora; "
          "otherwise base.")
          .automatic(),
      own("reference_cache", &Referenced::reference_cache,
          "compute the reference log-probabilities once, before the first step, instead "
          "of in every step. auto does so if the reference is start or the data are read more than "
          "once.")
          .automatic(),
      own("policy", &GrpoConfig::policy,
          "loss as a function of the ratio r of new to old probability: clipped (clip), a "
          "capped weight on the log-probability (cispo), a smooth gate (sapo), or the "
          "log-probability without r (reinforce)."),
      own("ratio", &GrpoConfig::ratio,
          "definition of r: the ratio of each token's probability (token), of the geometric "
          "mean over the completion (sequence), of the product (sum), or of the completion's "
          "probability to the expectation of its group (group)."),
      own("clip_low", &PolicyConfig::clip_low,
          "distance below 1 at which r is clipped (policy clip).").at_least(0).below(1),
      own("clip_high", &PolicyConfig::clip_high,
          "distance above 1 at which r is clipped (policy clip, cispo).").at_least(0),
      own("dual_clip", &PolicyConfig::dual_clip,
          "upper limit of r for completions with a negative advantage (policy clip).")
          .above(1)
          .when_unset("no limit"),
      own("mean", &PolicyConfig::mean,
          "averaging of a step's loss: over its trained tokens (token), over "
          "completions after averaging each over its own tokens (sequence), or the sum divided by "
          "the number of completions times rollout.max_new_tokens (constant)."),
      group("advantage", "grpo, ppo: calculation of advantages from rewards.", advantage_fields()),
      of_part<ObjectiveConfig, PolicyConfig>(
          section("kl", &PolicyConfig::kl, "KL divergence from the base model.", kl_fields()).shorthand("weight")),
      own("entropy_weight", &PolicyConfig::entropy_weight, "weight of the entropy bonus.")
          .at_least(0),
      own("updates_per_rollout", &PolicyConfig::updates_per_rollout,
          "number of optimizer steps that each rollout is split into, by prompts.")
          .range(1, 4096, "steps"),
      own("epochs_per_rollout", &PolicyConfig::epochs_per_rollout,
          "number of passes over each rollout.")
          .range(1, 64),
      own("mask_truncated", &PolicyConfig::mask_truncated,
          "exclude completions that were cut off at rollout.max_new_tokens from the "
          "loss."),
      own("gamma_discount", &PpoConfig::gamma_discount,
          "discount factor γ of later rewards.")
          .above(0)
          .range(0, 1),
      own("lambda_policy", &PpoConfig::lambda_policy,
          "λ of the generalized advantage estimates that train the policy.")
          .range(0, 1),
      own("lambda_value", &PpoConfig::lambda_value,
          "λ of the returns that train the value network.")
          .range(0, 1),
      own("lambda_length", &PpoConfig::lambda_length,
          "replaces lambda_policy by λ = 1 − 1 / (this · n), at least 0, for a completion of "
          "n tokens (vapo: 0.05).")
          .above(0)
          .when_unset("lambda_policy"),
      own("success_nll", &PpoConfig::success_nll,
          "weight of the negative log-likelihood of successful completions, which the first "
          "entry of rewards scores 1 or more.")
          .at_least(0),
      of_part<ObjectiveConfig, PpoConfig>(section("value", &PpoConfig::value,
              "value network: the same base with its own adapter (with adapter: none, a copy "
              "of all weights) and a head with one output.",
              value_fields())),
  };
}

}  // namespace forge
