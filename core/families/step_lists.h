#pragma once
// The lists of one model with what it trains, each made once: a plan tries many micro-batches, on which no list depends.
//
//   StepLists lists({spec, module_training(spec, adapter, sites)});
//   const Graph& step = lists.training({.recompute = again, .folded_adapters = true});
#include <array>
#include <optional>
#include <utility>

#include "core/families/step.h"

namespace forge {

class StepLists {
 public:
  // `shape`: its spec and training; the rest is a choice of each step.
  explicit StepLists(StepShape shape) : shape_(std::move(shape)), forward_(forward_list(shape_)) {}

  const ModuleTraining& trains() const { return shape_.training; }
  const Graph& forward() const { return forward_; }

  // Held until another choice is asked for.
  const Graph& training(const StepChoice& choice);
  const Graph& evaluation(const StepChoice& choice);

 private:
  StepShape shape_;
  Graph forward_;
  std::array<std::optional<Graph>, 2> training_forward_;  // by whether the head is fused
  struct Made {
    StepChoice choice;
    Graph list;
  };
  template <typename Make>
  const Graph& made(std::optional<Made>& last, const StepChoice& choice, const Make& make);

  std::optional<Made> training_, evaluation_;
};

}  // namespace forge
