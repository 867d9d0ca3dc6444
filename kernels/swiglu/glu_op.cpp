#include "kernels/swiglu/glu_op.h"

#include "core/graph/gradients.h"
#include "kernels/call/functions.h"
#include "kernels/call/run.h"
#include "kernels/swiglu/swiglu_args.h"

namespace forge {

ValueId glu(Recorder& g, ValueId gate, ValueId up, GateKind kind) {
  ValueId y = g.like("glu", gate, g.graph.value(gate).width);
  g.push(&ops::glu, {gate, up}, {y}).attributes.gate = kind;
  return y;
}

ValueId clamped_glu(Recorder& g, ValueId pairs, double limit, double alpha) {
  ValueId y = g.like("glu", pairs, g.graph.value(pairs).width / 2);
  Attributes& a = g.push(&ops::glu, {pairs}, {y}).attributes;
  a.gate = GateKind::clamped, a.gate_limit = limit, a.gate_alpha = alpha;
  return y;
}

namespace {

void derive_glu(Gradients& g, const Op& forward) {
  Op op = g.like(&ops::glu_backward, forward, {g.gradient(forward.out[0])});
  for (ValueId in : forward.in) op.in.push_back(g.need(in));
  for (size_t i = 0; i < forward.in.size(); ++i) {
    const int32_t place = g.graph.value(op.in[i + 1]).buffer;
    g.mirror(forward.in[i], place);
    op.out.push_back(g.gradient_in(forward.in[i], place));
  }
  g.push(std::move(op));
}

template <class Args>
Args gate_args(const Call& c, ValueId gate, ValueId up) {
  Args args{.type = c.type()};
  args.function = function_of(c.op.attributes.gate);
  args.rows = c.m.rows(gate), args.width = c.m.width(gate);
  args.gate = c.m.data(gate), args.gate_stride = c.m.stride(gate);
  args.up = c.m.data(up), args.up_stride = c.m.stride(up);
  return args;
}

template <class Args>
Args pairs_args(const Call& c, ValueId pairs) {
  Args args{.type = c.type()};
  args.rows = c.m.rows(pairs), args.width = c.m.width(pairs) / 2;
  args.limit = static_cast<float>(c.op.attributes.gate_limit),
  args.alpha = static_cast<float>(c.op.attributes.gate_alpha);
  args.pairs = c.m.data(pairs), args.pairs_stride = c.m.stride(pairs);
  return args;
}

ClampedGluForward clamped_glu(const Call& c) {
  auto args = pairs_args<ClampedGluForward>(c, c.in(0));
  args.y = c.m.data(c.out(0)), args.y_stride = c.m.stride(c.out(0));
  return args;
}

ClampedGluBackward clamped_glu_backward(const Call& c) {
  auto args = pairs_args<ClampedGluBackward>(c, c.in(1));
  args.d_y = c.m.data(c.in(0)), args.d_y_stride = c.m.stride(c.in(0));
  if (c.op.out.size() > 1) args.y = c.m.data(c.out(1)), args.y_stride = c.m.stride(c.out(1));
  return args;
}

SwigluForward glu(const Call& c) {
  auto args = gate_args<SwigluForward>(c, c.in(0), c.in(1));
  args.y = c.m.data(c.out(0)), args.y_stride = c.m.stride(c.out(0));
  return args;
}

SwigluBackward glu_backward(const Call& c) {
  auto args = gate_args<SwigluBackward>(c, c.in(1), c.in(2));
  args.d_y = c.m.data(c.in(0)), args.d_y_stride = c.m.stride(c.in(0));
  if (c.op.out.size() > 2) args.y = c.m.data(c.out(2)), args.y_stride = c.m.stride(c.out(2));
  return args;
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
