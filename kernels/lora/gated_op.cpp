#include "kernels/lora/gated_op.h"

#include <algorithm>

#include "kernels/call/functions.h"
#include "kernels/call/planned_call.h"
#include "kernels/call/run.h"
#include "kernels/lora/folded_op.h"
#include "kernels/lora/gated_args.h"
#include "kernels/lora/gated_space.h"
#include "kernels/swiglu/glu_op.h"

namespace forge {
static_assert(kMostGatedSums == kThinRanks && kMostGatedGradients == kMostGatedRanks);

std::vector<Op> gate_parts(const Op& folded) {
  const auto part = [&](OpKind kind, std::vector<ValueId> in, std::vector<ValueId> out) {
    return Op{.kind = kind, .layer = folded.layer, .in = std::move(in), .out = std::move(out), .attributes = folded.attributes};
  };
  std::vector<Op> parts;
  if (folded.kind == &ops::glu_sums) {
    parts.push_back(part(&ops::glu, folded.in, {folded.out[0]}));
    parts.push_back(part(&ops::adapter_sums, {folded.out[0]}, {folded.out.begin() + 1, folded.out.end()}));
    parts.back().modules = folded.modules;
    return parts;
  }
  const GateModules gate = gate_modules(folded);
  const ValueId d_y = folded.in[0];
  parts.push_back(part(&ops::glu_backward, {d_y, folded.in[1], folded.in[2]}, {folded.out[0], folded.out[1]}));
  if (gate.reader) {
    parts[0].out.push_back(d_y);
    parts.push_back(part(&ops::adapter_input_gradient, {folded.in[3], d_y}, {}));
    parts.back().modules = {folded.modules[0]};
  }
  if (gate.makers) {
    parts.push_back(part(&ops::adapter_sums_gradient, {folded.out[0], folded.in.back()}, {folded.out[2]}));
    parts.back().modules = {folded.modules.end() - 2, folded.modules.end()};
  }
  return parts;
}

namespace {

using bind::Packed;
using bind::packed;

// Returns the arguments without the adapters.
template <class Args>
Args gated_of(const Call& c, ValueId gate, ValueId up) {
  Args args{.type = c.type(),
            .function = function_of(c.op.attributes.gate),
            .tokens = c.tokens(),
            .planned = c.planned_tokens()};
  args.multiprocessors = c.m.capacity.multiprocessors, args.width = c.m.width(gate);
  args.gate = c.m.data(gate), args.gate_stride = c.m.stride(gate), args.up = c.m.data(up),
  args.up_stride = c.m.stride(up);
  args.counters = c.counters, args.workspace = c.workspace;
  return args;
}

// Returns the call of one of the ops that were folded into c's op.
Call as(const Call& c, const Op& part) {
  return {c.m, part, c.workspace, c.modules, c.first_module, c.batch, c.counters};
}

GatedSums glu_sums_args(const Call& c) {
  auto args = gated_of<GatedSums>(c, c.in(0), c.in(1));
  const Packed w = packed(c);
  const Part y = whole(c, c.out(0)), s = whole(c, c.out(1)),
             kept = c.op.out.size() > 2 ? whole(c, c.out(2)) : Part{};
  args.y = y.data, args.y_stride = y.stride;
  args.rank = c.use().rank, args.scale = c.module().scale, args.a = w.at(w.outs, 0), args.a_stride = w.stride;
  args.s = s.data, args.s_stride = s.stride, args.kept = kept.data, args.kept_stride = kept.stride;
  return args;
}

GatedGradients glu_adapters_backward_args(const Call& c) {
  auto args = gated_of<GatedGradients>(c, c.in(1), c.in(2));
  c.place(c.in(0), args.d_y, args.d_y_stride);
  for (const Op& part : gate_parts(c.op)) {
    const Call of = as(c, part);
    if (part.kind == &ops::adapter_input_gradient)
      args.rank = of.use().rank, args.d_s = c.m.data(part.in[0]), args.d_s_stride = c.m.stride(part.in[0]),
      args.d_a = of.module().d_a;
    if (part.kind != &ops::adapter_sums_gradient) continue;
    const Packed w = packed(of);
    const Part s = whole(of, part.in[1]), d_s = whole(of, part.out[0]);
    int64_t row = 0, first = 0;  // of B, and of its ranks
    for (size_t i = 0; i < 2; row += of.use(i).out, first += of.use(i).rank, ++i) {
      GatedSide& side = args.side[i];
      side.rank = of.use(i).rank, side.scale = of.module(i).scale, side.d_b = of.module(i).d_b;
      side.b = w.at(row, w.in + first), side.b_stride = w.stride;
      side.s = from_column(c, s, first).data, side.s_stride = s.stride;
      side.d_s = from_column(c, d_s, first).data, side.d_s_stride = d_s.stride;
    }
  }
  return args;
}

double gated_sums(const Graph& graph, const Op& op, double rows, double mean_length) {
  return flops::elementwise(graph, op, rows, mean_length) + flops::adapter_sums(graph, op, rows, mean_length);
}

// Counts d A of what reads y, and d s and d B of what made gate and up: 2 rows · rank · columns
// each.
double gated_gradients(const Graph& graph, const Op& op, double rows, double mean_length) {
  double ranks = 0;
  for (size_t i = 0; i < op.modules.size(); ++i)
    ranks += static_cast<double>((i == 0 && gate_modules(op).reader ? 1 : 2) * graph.module(op, i).rank);
  return flops::elementwise(graph, op, rows, mean_length) + 2 * rows * ranks * static_cast<double>(graph.value(op.in[0]).width);
}

// Runs one kernel, or the op's parts one after the other.
template <auto kArguments>
void run_gated(const OpRun& r) {
  const auto args = kArguments(r);
  if (r.device.refusal(args).empty()) return r.device.run(args);
  for (const Op& part : gate_parts(r.op)) run_op(OpRun(r, part));
}

// Returns the workspace of the ops that a folded gate stands for.
int64_t parts_workspace(const Call& c) {
  int64_t most = 0;
  for (const Op& part : gate_parts(c.op))
    most = std::max(most, planned_workspace(c.m.graph, part, c.m.capacity));
  return most;
}

template <auto kArguments>
int64_t gated_workspace(const Call& c) {
  if (!c.m.capacity.gpu) return parts_workspace(c);
  const auto args = kArguments(c);
  return gated_refusal(args).empty() ? 4 * gated_cut(args).numbers : parts_workspace(c);
}

}  // namespace

const OpRecord ops::glu_sums{.name = "glu, adapter sums",
                             .flops = gated_sums,
                             .bulk = Bulk::products,
                             .reads = Reads::factors,
                             .run = run_gated<glu_sums_args>,
                             .workspace = gated_workspace<glu_sums_args>};
const OpRecord ops::glu_adapters_backward{.name = "glu, adapters backward",
                                          .flops = gated_gradients,
                                          .bulk = Bulk::products,
                                          .reads = Reads::factors,
                                          .run = run_gated<glu_adapters_backward_args>,
                                          .workspace = gated_workspace<glu_adapters_backward_args>};

}  // namespace forge
