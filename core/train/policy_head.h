#pragma once
// The head under an objective whose gradient differs from token to token: completions that a policy drew.
//
// Where the cotangents are known before the head is (the first step of a rollout: −A w / D), it is visited once with them, as
// for the likelihood. Where they follow from the log-probabilities, one visit leaves those and the gradient of each
// position's logp in its own place, to be multiplied afterwards (sequence_head.h). Where the head itself is trained, or
// entropy has a weight, it is visited twice.
#include <functional>
#include <vector>

#include "core/train/sequence_head.h"

namespace forge {

// By supervised position of the micro-batch, in order.
struct PolicyCotangents {
  std::vector<float> logp;
  std::vector<float> entropy;  // empty: none
};

struct PolicyTask {
  double temperature = 1;
  double loss_scale = 1;
  std::vector<float> known;  // cotangents of logp; empty: ask
  bool entropy = false;      // `ask` has cotangents of the entropy too
  std::function<PolicyCotangents(const std::vector<double>& logps)> ask;
};

// By supervised position.
struct PolicyRows {
  std::vector<double> logps, entropies;
};

std::vector<double> host_doubles(const at::Tensor& values);

// → d rows [targets, hidden]; fills `rows`.
at::Tensor policy_head_backward(const SequenceHead& head, const BatchTensors& batch, const PolicyTask& task, PolicyRows& rows);

}  // namespace forge
