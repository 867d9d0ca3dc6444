#pragma once
// The rule that launchers and kernels share. No standard library: the including file has int64_t.

namespace forge {

// The rule for choosing experts and for their weights.
struct RouterRule {
  enum class Scores { softmax, chosen_softmax, sigmoid };
  Scores scores = Scores::softmax;  // of all experts, in fp32; chosen_softmax: of the chosen ones' logits
  int64_t per_token = 0;
  bool normalise = false;  // the weights of a token's experts have the sum 1
  double scale = 1;        // of those weights
  int64_t groups = 1, groups_per_token = 1,
          group_best = 1;  // experts of the groups whose `group_best` best have the largest sum
  bool balance = false;    // the sum of each expert's probability is wanted
};

}  // namespace forge
