#pragma once
// The section `objective` as values: a struct for each type. A key that several types have is a
// member of a struct that they share. Values that are not set depend on the type
// (core/learn/objective/objective.h).
#include <cstdint>
#include <optional>

#include "core/job/one_of.h"

namespace forge {

// A value that is written `auto` in the file, and that the plan then decides.
template <class T>
using Auto = std::optional<T>;

enum class ObjectiveType { sft, pretrain, dpo, simpo, orpo, cpo, kto, reward, grpo, ppo };
enum class TrainOn { assistant, last_assistant, each_assistant, completion, all };
// Loss of dpo over the difference of the two answers' log-ratios; core/learn/objective/dpo.cpp has
// the formulas.
enum class DpoLoss { sigmoid, robust, hinge, ipo, sigmoid_norm, exo_pair, nca_pair, apo_zero, apo_down, sppo_hard };
// True if the loss takes label_flip.
constexpr bool takes_label_flip(DpoLoss loss) {
  return loss == DpoLoss::sigmoid || loss == DpoLoss::robust || loss == DpoLoss::exo_pair;
}
// Tokens of the chosen text whose likelihood is added to a preference loss.
enum class NllOn { completion, all };
enum class NllMean { pair, token };  // mean of the likelihood that is added to a preference loss
enum class ReferenceModel { base, start };  // the model without the adapter; the model as training began
// Loss of a policy on the completions that were drawn; core/learn/reinforce has the formulas.
enum class PolicyTerm { clip, cispo, sapo, reinforce };
enum class PolicyRatio { token, sequence, sum, group };
enum class MeanOf { token, sequence, constant };
enum class Baseline { group, others, none };
enum class AdvantageScale { group, batch, none };
enum class KlEstimator { k1, k2, k3 };
enum class KlPlace { loss, reward };

// Keys of a loss on each token of a text.
struct LikelihoodConfig {
  TrainOn train_on = TrainOn::assistant;
  double label_smoothing = 0;
  double z_loss = 0;  // coefficient of logsumexp², averaged like the loss
};

// The strength of a preference.
struct Preferring {
  std::optional<double> beta;
};

// A likelihood beside a preference.
struct LikelihoodBeside {
  std::optional<double> nll_weight;  // weight of the chosen answer's mean negative log-likelihood
  NllMean nll_mean = NllMean::pair;
  NllOn nll_on = NllOn::completion;
};

// A model that answers' log-probabilities are compared with.
struct Referenced {
  Auto<ReferenceModel> reference;
  // Compute the reference's log-probabilities once, before the first step.
  Auto<bool> reference_cache;
};

struct KlConfig {
  double weight = 0;  // 0: no reference is needed
  bool measure = false;  // measure the divergence even at weight 0
  KlEstimator estimator = KlEstimator::k3;
  KlPlace in = KlPlace::loss;
};

// The second network of ppo, which predicts rewards.
struct ValueConfig {
  double clip = 0.2;           // largest change of a value from that at drawing; 0: no limit
  double learning_rate_ratio = 5;  // its learning rate over the policy's
  int64_t pretrain_steps = 0;  // steps in which it alone is trained
};

// Keys of completions that are drawn and scored.
struct PolicyConfig {
  double clip_low = 0.2, clip_high = 0.28;  // widths: 1 − low … 1 + high
  std::optional<double> dual_clip;
  MeanOf mean = MeanOf::token;
  AdvantageScale advantage_scale = AdvantageScale::group;  // key `advantage.scale`
  KlConfig kl;
  double entropy_weight = 0;
  int64_t updates_per_rollout = 1, epochs_per_rollout = 1;
  bool mask_truncated = false;
};

struct SftConfig : LikelihoodConfig {};
struct PretrainConfig : LikelihoodConfig {};
struct DpoConfig : Preferring, LikelihoodBeside, Referenced {
  DpoLoss loss = DpoLoss::sigmoid;
  double label_flip = 0;  // assumed share of pairs with swapped labels
};
struct SimpoConfig : Preferring, LikelihoodBeside {
  double gamma = 1;  // target margin
};
struct OrpoConfig : LikelihoodBeside {
  double odds_weight = 0.1;
};
struct CpoConfig : Preferring, LikelihoodBeside {};
struct KtoConfig : Preferring, Referenced {
  double desirable_weight = 1, undesirable_weight = 1;
};
struct RewardModelConfig {
  double center = 0.01;  // pulls the two rewards' sum to 0
};
struct GrpoConfig : PolicyConfig {
  PolicyTerm policy = PolicyTerm::clip;
  PolicyRatio ratio = PolicyRatio::token;
  Baseline baseline = Baseline::group;  // key `advantage.baseline`
};
struct PpoConfig : PolicyConfig {
  double gamma_discount = 1, lambda_policy = 0.95, lambda_value = 0.95;
  std::optional<double> lambda_length;  // vapo: λ of a completion of n tokens is 1 − 1 / (this · n)
  double success_nll = 0;               // weight of the likelihood of completions that succeeded
  ValueConfig value;
};

using ObjectiveConfig = OneOf<ObjectiveType, SftConfig, PretrainConfig, DpoConfig, SimpoConfig, OrpoConfig, CpoConfig,
                              KtoConfig, RewardModelConfig, GrpoConfig, PpoConfig>;

}  // namespace forge
