#include "kernels/lm_head/head_op.h"

#include <algorithm>

#include "core/graph/gradients.h"
#include "core/lib/base/error.h"
#include "kernels/call/call.h"
#include "kernels/lm_head/lm_head_cuda.h"
#include "kernels/lm_head/lm_head_scratch.h"
#include "kernels/lm_head/lm_head_space.h"

namespace forge {

void head(Recorder& g, ValueId rows, const std::string& module, int64_t vocabulary, double softcap, bool fused, bool training,
          bool bias) {
  FORGE_CHECK(!(fused && bias), "no kernel computes a head with a bias without logits");
  std::vector<ValueId> out;
  const int64_t width = g.graph.value(rows).width;
  if (training) out.push_back(g.like("d head", rows, width));
  const int32_t at = g.module_at(module, ModuleKind::head, width, vocabulary, bias);
  Attributes& attributes = g.push(training ? &ops::head : &ops::evaluate, {rows}, out, {at}).attributes;
  attributes.softcap = softcap;
  attributes.fused_head = fused;
}

LmHead head_args(const Call& c) {
  LmHead args{c.type(), c.m.targets, c.m.width(c.in(0)), c.module().rows};
  c.place(c.in(0), args.hidden, args.hidden_stride);
  args.weight = c.module().weight, args.weight_stride = c.module().stride;
  args.targets = c.batch.loss_targets;
  args.softcap = static_cast<float>(c.op.attributes.softcap);
  if (!c.op.out.empty()) c.place(c.out(0), args.d_hidden, args.d_hidden_stride);
  args.workspace = c.workspace;
  return args;
}

namespace {

// Counts logits, their gradient to the input and, of a trained head, to the weight.
double head_flops(const Graph& graph, const Op& op, double rows, double) {
  const double once = 2 * rows * flops::weights(graph, op);
  return once * (op.kind == &ops::evaluate ? 1 : graph.module(op).trained ? 3 : 2);
}

void derive_head(Gradients& g, const Op& forward) { g.set_gradient(forward.in[0], forward.out[0]); }

int64_t head_workspace(const Call& c) {
  const StepSizes& sizes = c.m.capacity;
  if (!c.op.attributes.fused_head)
    return head_scratch_bytes(std::min(kHeadChunk, sizes.targets), c.use().out, c.bytes(),
                              c.op.attributes.softcap != 0, sizes.gpu);
  const LmHead args = head_args(c);
  const int64_t bytes =
      sizes.gpu ? lm_head_cuda_workspace(args) : head_space(args, nullptr, sizes.threads).bytes;
  // The sum includes 64 B of alignment, and the loss and weight of each position.
  return bytes + 64 + 8 * sizes.targets;
}

}  // namespace

const OpRecord ops::head{.name = "head", .flops = head_flops, .bulk = Bulk::products, .derive = derive_head, .workspace = head_workspace};
const OpRecord ops::evaluate{.name = "evaluate", .flops = head_flops, .bulk = Bulk::products, .workspace = head_workspace};

}  // namespace forge
