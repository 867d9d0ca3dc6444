#include "core/model/graph/backward.h"
#include "kernels/rms_norm/norm_op.h"
#include "kernels/rows/rows_op.h"

namespace forge {

void fuse_additions(Graph& graph) {
  std::vector<Op> fused;
  std::vector<Op> ops = std::move(graph.ops);
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
