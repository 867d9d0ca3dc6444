#include "core/model/families/step_lists.h"

namespace forge {

template <typename Make>
const Graph& StepLists::made(std::optional<Made>& last, const StepChoice& choice, const Make& make) {
  if (!last || last->choice != choice) {
    static_cast<StepChoice&>(shape_) = choice;
    last = Made{choice, make(shape_)};
  }
  return last->list;
}

const Graph& StepLists::training(const StepChoice& choice) {
  std::optional<Graph>& forward = training_forward_[choice.fused_head];
  return made(training_, choice, [&](const StepShape& shape) {
    if (!forward) forward = training_forward(shape);
    return training_step(Graph(*forward), shape);
  });
}
const Graph& StepLists::evaluation(const StepChoice& choice) {
  // An evaluation does not depend on what is computed again or updated.
  return made(evaluation_,
              {.fused_head = choice.fused_head, .folded_adapters = choice.folded_adapters, .folded_residuals = choice.folded_residuals},
              evaluation_step);
}

}  // namespace forge
