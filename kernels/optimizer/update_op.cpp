#include "kernels/optimizer/update_op.h"

#include "kernels/call/call.h"
#include "kernels/optimizer/optimizer_args.h"

namespace forge {
namespace {

// Counts squares and sums. An update takes a few more FLOPs, all hidden by the time of its bytes.
double update_flops(const Graph&, const Op& op, double, double) {
  return (op.kind == &ops::gradient_norm ? 2 : 16) * static_cast<double>(op.attributes.elements);
}

int64_t norm_workspace(const Call& c) {
  const FlatNorm args{.count = c.op.attributes.elements};
  return c.m.capacity.gpu ? gradient_norm_cuda_workspace(args) : gradient_norm_cpu_workspace(args);
}

}  // namespace

const OpRecord ops::gradient_norm{.name = "gradient norm", .flops = update_flops, .workspace = norm_workspace};
const OpRecord ops::update{.name = "update", .flops = update_flops};

}  // namespace forge
