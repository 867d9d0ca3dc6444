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

}  // namespace

void fold_residuals(Graph& graph) {
  const auto index = [](ValueId value) { return static_cast<size_t>(value); };
  std::vector<size_t> writers(graph.values.size(),
                              graph.ops.size());  // the first op that writes a value
  std::vector<int> readers(graph.values.size(), 0);                    // ops that read it
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    for (const auto* made : {&graph.ops[i].out, &graph.ops[i].parts})
      for (ValueId value : *made) writers[index(value)] = std::min(writers[index(value)], i);
    for (ValueId value : graph.ops[i].in) ++readers[index(value)];
  }
  // Returns the product that makes `branch`, if nothing else reads `branch` and the stream is there
  // by then. The stream is still the same when it is added.
  const auto product_of = [&](ValueId branch, ValueId stream) -> Op* {
    const size_t at = writers[index(branch)];
    if (readers[index(branch)] != 1 || !one_product(graph, graph.ops[at])) return nullptr;
    return writers[index(stream)] < at ? &graph.ops[at] : nullptr;
  };
  size_t gone = 0;  // ops of the forward list
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    Op& add = graph.ops[i];
    if (add.kind != &ops::add || !of_compute_type(graph, add)) continue;
    if (Op* product = product_of(add.in[1], add.in[0])) {
      product->in.push_back(add.in[0]);
      product->out = product->parts = add.out;
      product->attributes.accumulate = true;
      writers[index(add.out[0])] = writers[index(add.in[1])];
      gone += i < graph.forward_ops;
      add.kind = nullptr;
    }
  }
  std::erase_if(graph.ops, [](const Op& op) { return op.kind == nullptr; });
  graph.forward_ops -= gone;
}

}  // namespace forge
