#pragma once
// Keeps the lists of one model and of what it trains. A plan tries many micro-batches, on which no
// list depends.
//
//   StepLists lists({spec, module_training(spec, adapter, sites)});
//   const Graph& step = lists.training({.recompute = again, .folded_adapters = true});
#include <array>
#include <optional>
#include <utility>

#include "core/model/families/step.h"

namespace forge {

class StepLists {
 public:
  // Takes the spec, training and residual type of `shape`. The choices come with each step.
  explicit StepLists(StepShape shape) : shape_(std::move(shape)), forward_(forward_list(shape_)) {}

  const ModuleTraining& trains() const { return shape_.training; }
  const Graph& forward() const { return forward_; }

  // Return the list for `choice`. It is held until another choice is asked for.
  const Graph& training(const StepChoice& choice);
  const Graph& evaluation(const StepChoice& choice);

 private:
  StepShape shape_;
  Graph forward_;
  std::array<std::optional<Graph>, 2> training_forward_;  // index: the head is fused
  struct Made {
    StepChoice choice;
    Graph list;
  };
  template <typename Make>
  const Graph& made(std::optional<Made>& last, const StepChoice& choice, const Make& make);

  std::optional<Made> training_, evaluation_;
};

}  // namespace forge
