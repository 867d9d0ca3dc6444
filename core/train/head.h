#pragma once
// The head over a micro-batch's supervised positions, between the provider's lists. It is told what
// an objective needs of the rows and when their cotangents are known:
//
//   likelihood   by formula, chunk by chunk; in kernels that hold no logits where the provider's list has them
//   known        before the head is visited (the first step of a rollout: −A w / D)
//   from_rows    a function of all rows' numbers: sums of answers, ratios of a policy, errors of values
//
// The gradient of a position's logp by its hidden state, D = W_y − Σ p_v W_v (each row times the
// cap's slope), does not know the objective. So under from_rows one visit leaves the numbers and D
// where the rows' gradient belongs, and each row of D is multiplied by its cotangent in place: the
// cost and memory of a likelihood. Where the head itself is trained, its own gradient Σ g (1_y − p)
// hᵀ waits for g, and so do its bias's and the entropy's: then the head is visited twice.
//
// A head of scores has one number a row in the place of logp, w · h in fp32 whatever the model
// computes in.
//
// Keeping Σ p W apart instead would take a second buffer and, in 16 bits, cancel badly for tokens
// of which the model is certain.
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "core/job/job.h"
#include "core/learn/objective/sequence_loss.h"
#include "core/model/model.h"
#include "core/model/step_provider.h"
#include "core/model/trainable.h"
#include "kernels/device/captures.h"
#include "kernels/lm_head/lm_head.h"

namespace forge {

// Loss and metrics of one micro-batch, before division.
struct BatchLoss {
  double loss = 0;
  std::function<double()> later;  // belongs to the loss, and the device may not know it yet; or null
  Metrics metrics;
  double reference_gap = 0;  // max |l| of its answers
};

// Cotangents by supervised position, before they are multiplied by loss_scale.
struct RowCotangents {
  std::vector<double> logp;
  std::vector<double> entropy;  // empty: none
};

struct HeadTask {
  TokenNeeds needs;                 // numbers of each row, in one visit
  double loss_scale = 1;            // multiplies the cotangents
  std::vector<double> known;        // cotangents of logp; empty: from_rows makes them
  std::function<RowCotangents(const TokenOutputs& rows)> from_rows;
  bool keeps_entropy = false;       // the rows have their entropies, too
  bool pulls_entropy = false;       // from_rows has cotangents of the entropy
  std::function<void(const TokenOutputs& chunk)> see;  // sees each row's numbers once; or null
};

// Returns what is read of a policy's rows: log-probabilities and entropies at a temperature.
inline TokenNeeds policy_needs(double temperature) { return {.logp = true, .entropy = true, .temperature = temperature}; }

// Returns a device's numbers as fp64 on the host.
std::vector<double> host_doubles(const at::Tensor& values);

class Head {
 public:
  // `trained`, `bias`: the trainables of the head's own weight and bias; null where they are
  // frozen. All must outlive this.
  Head(const Model& model, Trainable* trained, Trainable* bias) : model_(model), trained_(trained), bias_(bias) {}

  // Returns the rows' numbers, undefined where there are no rows.
  TokenOutputs numbers(const HeadRows& rows, const BatchTensors& batch, const TokenNeeds& needs);

  // Returns d rows [targets, hidden] of the negative log-likelihood / divisor · loss_scale, and
  // adds the head's own gradient.
  at::Tensor likelihood_backward(const HeadRows& rows, const BatchTensors& batch, const LikelihoodConfig& objective,
                                 const StepScale& scale, BatchLoss& loss);

  // Returns d rows [targets, hidden] and adds the head's own gradient. `kept`: logp of the rows,
  // and their entropy if the task keeps it.
  at::Tensor backward(const HeadRows& rows, const BatchTensors& batch, const HeadTask& task, TokenOutputs& kept);

 private:
  // Returns a language model's head in the form that its kernels take.
  at::Tensor weight() const { return head_weight(model_).detach(); }
  // Returns the weights of a head of scores, fp32 [1, hidden]. Trained weights are read from their
  // exact copies.
  at::Tensor score_weight() const;
  at::Tensor weight_grad() const { return trained_ ? trained_->grad : at::Tensor(); }
  at::Tensor bias() const { return model_.head_bias.defined() ? model_.head_bias.detach() : at::Tensor(); }
  HeadMemory memory(const HeadRows& rows) const;
  at::Tensor backward_of_scores(const HeadRows& rows, const HeadTask& task, TokenOutputs& kept);
  std::function<double()> run_fused(const HeadRows& rows, const std::vector<float>& weights, const LikelihoodConfig& objective, double scale);

  const Model& model_;
  Trainable *trained_, *bias_;
  Captures<LmHead> captures_;
};

}  // namespace forge
