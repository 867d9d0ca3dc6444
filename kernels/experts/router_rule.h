#pragma once
// What launchers and kernels agree on. No standard library: whoever includes it has int64_t.

namespace forge {

// How experts are chosen, and what they are weighted with.
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
