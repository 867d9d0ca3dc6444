#include "core/model/graph/backward.h"

#include <algorithm>

#include "kernels/experts/expert_linear_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/lora/folded_op.h"
#include "kernels/rms_norm/norm_op.h"
#include "kernels/rows/rows_op.h"
#include "kernels/swiglu/glu_op.h"

namespace forge {

Graph with_backward(Graph forward, const KeptValues& kept) {
  return Gradients(std::move(forward), kept, {.cast = &ops::cast, .add = &ops::add_gradient}).derive();
}

namespace {

// Returns the index of the backward of a norm or a gated activation that is repeated at `at`; 0:
// none. A layer's values are read in its own ops alone.
size_t backward_of(const std::vector<Op>& ops, size_t at) {
  const Op& again = ops[at];
  for (size_t i = at + 1; i < ops.size() && ops[i].layer == again.layer; ++i) {
    const Op& op = ops[i];
    if (again.kind == &ops::norm && op.kind == &ops::norm_backward && op.modules == again.modules && op.in[1] == again.in[0] &&
        op.in[2] != again.out[1])
      return i;
    if (again.kind == &ops::glu && op.kind == &ops::glu_backward &&
        std::equal(again.in.begin(), again.in.end(), op.in.begin() + 1))
      return i;
  }
  return 0;
}

// Moves the op at `at` into its backward, if nothing but gradients of weights reads it. An empty op
// is left in its place, since taking one op out of a list of thousands moves all that follow.
void move_into_backward(std::vector<Op>& ops, size_t at) {
  const size_t backward = backward_of(ops, at);
  if (backward == 0) return;
  const ValueId again = ops[at].out[0];
  std::vector<size_t> before, readers;
  for (size_t i = at + 1; i < ops.size() && ops[i].layer == ops[at].layer; ++i) {
    const bool of_weights = ops[i].kind == &ops::linear_weight_gradient || ops[i].kind == &ops::adapter_input_gradient ||
                            ops[i].kind == &ops::expert_weight_gradient;
    const bool reader = ops[i].reads(again);
    if (reader && (!of_weights || i > backward)) return;
    if (ops[at].out.size() > 1 && ops[i].reads(ops[at].out[1])) return;
    if (i <= backward) (reader ? readers : before).push_back(i);
  }
  ops[before.back()].out.push_back(again);
  before.insert(before.end(), readers.begin(), readers.end());
  std::vector<Op> moved;
  for (size_t i : before) moved.push_back(std::move(ops[i]));
  std::move(moved.begin(), moved.end(), ops.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  ops[at] = Op{.kind = ops[at].kind, .layer = ops[at].layer};
}

bool emptied(const Op& op) { return op.out.empty() && (op.kind == &ops::norm || op.kind == &ops::glu); }

}  // namespace

void repeat_in_backward(Graph& graph) {
  for (size_t i = graph.ops.size(); i-- > graph.forward_ops;)
    if ((graph.ops[i].kind == &ops::norm || graph.ops[i].kind == &ops::glu) && !emptied(graph.ops[i])) move_into_backward(graph.ops, i);
  std::erase_if(graph.ops, emptied);
}

void fuse_additions(Graph& graph) {
  std::vector<Op> fused;
  std::vector<Op> ops = std::move(graph.ops);
  fused.reserve(ops.size());
  size_t forward = graph.forward_ops;
  for (size_t i = 0; i < ops.size(); ++i) {
    Op& op = ops[i];
    // The kernel has no sum of two parts of the stream in fp32.
    const auto adds_branch = [&](const Op& add) { return graph.buffer_of(add.in[1]).type == graph.buffer_of(op.out[0]).type; };
    if (op.kind == &ops::norm && !fused.empty() && fused.back().kind == &ops::add &&
        fused.back().out[0] == op.in[0] && i != forward && adds_branch(fused.back())) {
      const ValueId sum = op.in[0];
      op.kind = &ops::add_norm;
      op.in = fused.back().in;
      op.out.insert(op.out.begin(), sum);
      fused.pop_back();
    }
    fused.push_back(std::move(op));
    if (i + 1 == forward) graph.forward_ops = fused.size();
  }
  graph.ops = std::move(fused);
}

}  // namespace forge
