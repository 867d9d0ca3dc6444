#include "kernels/swiglu/glu_op.h"

#include "core/lib/base/error.h"
#include "kernels/call/derive.h"
#include "kernels/call/functions.h"
#include "kernels/call/run.h"
#include "kernels/swiglu/swiglu_args.h"

namespace forge {

ValueId glu(Recorder& g, ValueId gate, ValueId up, GateKind kind) {
  ValueId y = g.like("glu", gate, g.graph.value(gate).width);
  g.push(&ops::glu, {gate, up}, {y}).attributes.gate = kind;
  return y;
}

ValueId halves_glu(Recorder& g, ValueId joined, int64_t half, GateKind kind) {
  ValueId y = g.like("glu", joined, g.graph.value(joined).width / 2);
  Attributes& a = g.push(&ops::glu, {joined}, {y}).attributes;
  a.gate = kind, a.gate_half = half;
  return y;
}

ValueId clamped_glu(Recorder& g, ValueId pairs, double limit, double alpha) {
  ValueId y = g.like("glu", pairs, g.graph.value(pairs).width / 2);
  Attributes& a = g.push(&ops::glu, {pairs}, {y}).attributes;
  a.gate = GateKind::clamped, a.gate_limit = limit, a.gate_alpha = alpha;
  return y;
}

namespace {

// `gate` is the op's first input, which holds both where a half is stated.
template <class Args>
Args gate_args(const Call& c, ValueId gate, ValueId up) {
  auto args = over_rows<Args>(c, gate);
  args.function = function_of(c.op.attributes.gate);
  c.place(gate, args.gate, args.gate_stride);
  if (const int64_t half = c.op.attributes.gate_half; half > 0) {
    FORGE_CHECK(args.gate_stride == args.width, "gates and values of more rows than one, with a gap");
    args.rows *= args.width / (2 * half), args.width = half;
    args.gate_stride = args.up_stride = 2 * half;
    args.up = static_cast<char*>(c.m.data(gate)) + half * c.bytes();
    return args;
  }
  c.place(up, args.up, args.up_stride);
  return args;
}

// Sets the place of the result, whose rows are as many as those of `args`.
template <class Args>
void place_result(const Call& c, ValueId y, Args& args) {
  c.place(y, args.y, args.y_stride);
  if (c.op.attributes.gate_half == 0) return;
  FORGE_CHECK(args.y_stride == c.m.width(y), "results of more rows than one, with a gap");
  args.y_stride = args.width;
}

template <class Args>
Args pairs_args(const Call& c, ValueId pairs) {
  auto args = over_rows<Args>(c, pairs);
  args.width /= 2;
  args.limit = static_cast<float>(c.op.attributes.gate_limit),
  args.alpha = static_cast<float>(c.op.attributes.gate_alpha);
  c.place(pairs, args.pairs, args.pairs_stride);
  return args;
}

ClampedGluForward clamped_glu(const Call& c) {
  auto args = pairs_args<ClampedGluForward>(c, c.in(0));
  c.place(c.out(0), args.y, args.y_stride);
  return args;
}

ClampedGluBackward clamped_glu_backward(const Call& c) {
  auto args = pairs_args<ClampedGluBackward>(c, c.in(1));
  c.place(c.in(0), args.d_y, args.d_y_stride);
  if (c.op.out.size() > 1) c.place(c.out(1), args.y, args.y_stride);
  return args;
}

SwigluForward glu(const Call& c) {
  const bool joined = c.op.attributes.gate_half > 0;
  auto args = gate_args<SwigluForward>(c, c.in(0), joined ? kNoValue : c.in(1));
  place_result(c, c.out(0), args);
  return args;
}

SwigluBackward glu_backward(const Call& c) {
  const bool joined = c.op.attributes.gate_half > 0;
  auto args = gate_args<SwigluBackward>(c, c.in(1), joined ? kNoValue : c.in(2));
  c.place(c.in(0), args.d_y, args.d_y_stride);
  if (joined) {
    FORGE_CHECK(args.d_y_stride == c.m.width(c.in(0)), "gradients of more rows than one, with a gap");
    args.d_y_stride = args.width;
  }
  if (const size_t again = joined ? 1 : 2; c.op.out.size() > again) place_result(c, c.out(again), args);
  if (c.op.attributes.gate == GateKind::sigmoid) {
    c.place(c.out(0), args.d_gate, args.d_gate_stride);
    c.place(c.out(1), args.d_up, args.d_up_stride);
  }
  return args;
}

void derive_glu(Gradients& g, const Op& forward) {
  if (forward.attributes.gate == GateKind::sigmoid) return derive::apart<&ops::glu_backward, 2>(g, forward);
  derive::in_place<&ops::glu_backward>(g, forward);
}

void run_glu(const OpRun& r) {
  r.op.attributes.gate == GateKind::clamped ? r.device.run(clamped_glu(r)) : r.device.run(glu(r));
}

void run_glu_backward(const OpRun& r) {
  r.op.attributes.gate == GateKind::clamped ? r.device.run(clamped_glu_backward(r)) : r.device.run(glu_backward(r));
}

}  // namespace

const OpRecord ops::glu{.name = "glu", .flops = flops::elementwise, .derive = derive_glu, .run = run_glu, .copies = {.results = 2}};
const OpRecord ops::glu_backward{.name = "glu backward",
                                 .flops = flops::elementwise,
                                 .run = run_glu_backward,
                                 .copies = {.results = 2,
                                 .operands = 2},
                                 .gradient_of = {&ops::glu}};

}  // namespace forge
