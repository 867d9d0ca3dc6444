#pragma once
// Checks if a server draws with the weights that it was given, by the log-probabilities that it
// said, the trainer's own of the same tokens with those weights, and the base model's.
//
// A server is believed in nothing that can be computed here. The slope tells an adapter that is
// ignored from rounding much earlier than a bound on the gap could. Rollouts by older weights are
// compared with those weights (one more forward pass): a bound large enough for what the weights
// have become since would let an adapter that is not applied pass.

#include "core/learn/rollout/rollout.h"

namespace forge {

// Statistics over the drawn tokens, with s, p and b the log-probabilities of server, trainer and
// base.
struct WeightsSeen {
  int64_t tokens = 0;
  double gap = 0;  // mean |s − p|
  // Share of the adapter's effect that the server shows, and its standard error: the slope of s − b
  // over p − b by least squares. It is 1 if the server draws with the adapter and 0 if it draws
  // without. If there is no effect to be seen the error is infinite.
  double effect = 0, error = 0;
};
WeightsSeen weights_seen(const std::vector<Completion>& completions);

// Throws Error(environment) if the server draws as the base does (an effect below one half, and by
// three standard errors not 1) or the gap is above max_gap.
void require_same_weights(const Rollout& rollout, const ServerConfig& server);

}  // namespace forge
