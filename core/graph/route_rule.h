#pragma once
// The rule that lists, launchers and kernels share. No standard library, for NVRTC: the including
// file has int64_t.

namespace forge {

// Rule by which a router chooses experts (transformers' names in comments).
struct RouteRule {
  enum class Scores { softmax, chosen_softmax, sigmoid };
  Scores scores = Scores::softmax;  // of all experts; chosen_softmax: of those that were chosen by their logits
  int64_t per_token = 0;            // num_experts_per_tok
  bool normalise = false;           // norm_topk_prob: the weights of a token's experts have the sum 1
  double sum_eps = 0;               // is added to their sum before
  double scale = 1;                 // routed_scaling_factor, applied after that
  int64_t groups = 1, groups_per_token = 1;  // n_group, topk_group: experts are chosen within the best groups
  int64_t group_best = 1;                    // a group is as good as the sum of its so many best experts
  bool balance = false;             // the sum of each expert's probability is wanted too
};

}  // namespace forge
