#include "core/model/graph/fold_residuals.h"

#include <algorithm>

#include "kernels/linear/linear_op.h"
#include "kernels/rows/rows_op.h"

namespace forge {
namespace {

// True for one product that writes all of its result at once: no bias is there before, no adapter
// of its own is added afterwards, and it adds nothing yet, such as what experts made to what a
// shared one makes. Products in 8 bits add to nothing.
bool one_product(const Graph& graph, const Op& op) {
  return op.kind == &ops::linear && op.modules.size() == 1 && op.out.size() == 1 && !graph.module(op).bias && !graph.module(op).fp8 &&
         !op.attributes.accumulate;
}

bool of_compute_type(const Graph& graph, const Op& add) {
  return graph.buffer_of(add.in[0]).type == ValueType::compute && graph.buffer_of(add.in[1]).type == ValueType::compute;
}

class Folding {
 public:
  explicit Folding(Graph& graph) : graph_(graph), writers_(graph.values.size(), graph.ops.size()), readers_(graph.values.size(), 0) {
    for (size_t i = 0; i < graph.ops.size(); ++i) {
      for (const auto* made : {&graph.ops[i].out, &graph.ops[i].parts})
        for (ValueId value : *made) writers_[index(value)] = std::min(writers_[index(value)], i);
      for (ValueId value : graph.ops[i].in) ++readers_[index(value)];
    }
  }

  void fold() {
    std::vector<bool> gone(graph_.ops.size(), false);
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& add = graph_.ops[i];
      if (add.kind != &ops::add || !of_compute_type(graph_, add)) continue;
      if (Op* product = product_of(add.in[1], add.in[0])) {
        product->in.push_back(add.in[0]);
        product->out = product->parts = add.out;
        product->attributes.accumulate = true;
        writers_[index(add.out[0])] = writers_[index(add.in[1])];
        gone[i] = true;
      }
    }
    drop(gone);
  }

 private:
  static size_t index(ValueId value) { return static_cast<size_t>(value); }

  // Returns the product that makes `branch`, if nothing else reads `branch` and the stream is there
  // by then. The stream is still the same when it is added.
  Op* product_of(ValueId branch, ValueId stream) {
    const size_t at = writers_[index(branch)];
    if (readers_[index(branch)] != 1 || !one_product(graph_, graph_.ops[at])) return nullptr;
    return writers_[index(stream)] < at ? &graph_.ops[at] : nullptr;
  }

  void drop(const std::vector<bool>& gone) {
    std::vector<Op> left;
    left.reserve(gone.size());
    size_t forward = 0;
    for (size_t i = 0; i < gone.size(); ++i) {
      if (!gone[i]) left.push_back(std::move(graph_.ops[i]));
      if (i + 1 == graph_.forward_ops) forward = left.size();
    }
    graph_.ops = std::move(left), graph_.forward_ops = forward;
  }

  Graph& graph_;
  std::vector<size_t> writers_;  // the first op that writes a value
  std::vector<int> readers_;     // ops that read it
};

}  // namespace

void fold_residuals(Graph& graph) { Folding(graph).fold(); }

}  // namespace forge
